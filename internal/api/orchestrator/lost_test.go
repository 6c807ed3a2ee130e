package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	surface "github.com/sandkasten/sandkasten/internal/api/orchestrator"
	"github.com/sandkasten/sandkasten/internal/blob"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/orchestrator"
)

// faultyStore is a store whose calls fail as the test says.
type faultyStore struct {
	blob.Store

	mu   sync.Mutex
	open func(key string) error              // guarded by mu; nil lets it be
	read func(io.ReadCloser) io.ReadCloser   // guarded by mu; changes what is read, if it is there
	put  func(key string, r io.Reader) error // guarded by mu; nil lets it be
}

func (f *faultyStore) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *faultyStore) Open(ctx context.Context, key string, offset int64) (io.ReadCloser, error) {
	f.mu.Lock()
	open, read := f.open, f.read
	f.mu.Unlock()
	if open != nil {
		if err := open(key); err != nil {
			return nil, err
		}
	}
	r, err := f.Store.Open(ctx, key, offset)
	if err == nil && read != nil {
		r = read(r)
	}
	return r, err
}

func (f *faultyStore) Put(ctx context.Context, key string, r io.Reader) (int64, error) {
	f.mu.Lock()
	put := f.put
	f.mu.Unlock()
	if put != nil && strings.HasPrefix(key, "snapshots/") {
		if err := put(key, r); err != nil {
			return 0, err
		}
	}
	return f.Store.Put(ctx, key, r)
}

func newFaultyStore(t *testing.T) *faultyStore {
	t.Helper()
	dir, err := blob.NewDir(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	return &faultyStore{Store: dir}
}

// flipped is a blob with one wrong bit at a place.
type flipped struct {
	io.ReadCloser

	at, place int64
}

func (f *flipped) Read(p []byte) (int, error) {
	n, err := f.ReadCloser.Read(p)
	if i := f.place - f.at; i >= 0 && i < int64(n) {
		p[i] ^= 1
	}
	f.at += int64(n)
	return n, err
}

// One wrong bit, one 404 of the store and a store that cannot be read say nothing about
// an archive: the session fails, and the next create has its files.
func TestMomentaryFaultsOfAStoreLoseNothing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spoil  func(*faultyStore)
		status int // of the create that meets it
	}{
		"a 404": {func(f *faultyStore) { f.open = func(key string) error { return blob.NotFound(key, nil) } }, http.StatusBadRequest},
		"a wrong bit": {func(f *faultyStore) {
			f.read = func(r io.ReadCloser) io.ReadCloser { return &flipped{ReadCloser: r, place: 5000} }
		}, http.StatusBadRequest},
		"an error of the disk": {func(f *faultyStore) {
			f.open = func(string) error { return errors.New("input/output error") }
		}, http.StatusServiceUnavailable},
		"a wrong bit, the second time that it is read": {func(f *faultyStore) {
			opened := 0
			f.read = func(r io.ReadCloser) io.ReadCloser {
				if opened++; opened == 1 {
					return r
				}
				return &flipped{ReadCloser: r, place: 5000}
			}
		}, http.StatusServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newFaultyStore(t)
			s := startWith(t, store, surface.Options{})
			s.save("head -c 100000 /dev/urandom")
			store.set(func() { test.spoil(store) })
			if a := s.do("POST", base, `{"id":"`+someID+`"}`); a.status != test.status {
				t.Errorf("%d %s; want %d", a.status, a.body, test.status)
			}
			failed := s.object(http.StatusOK, "GET", one, "")
			if metadata, _ := failed["metadata"].(map[string]any); failed["status"] != "failed" || metadata["skipped_snapshot_ids"] != nil || metadata["latest_snapshot_id"] == nil {
				t.Errorf("%v", failed)
			}
			store.set(func() { store.open, store.read = nil, nil })
			s.object(http.StatusCreated, "POST", base, `{"id":"`+someID+`"}`)
			if got := s.object(http.StatusOK, "POST", one+"/exec", `{"command":"stat -c %s f"}`); got["stdout"] != "100000\n" {
				t.Errorf("%v", got)
			}
		})
	}
}

// Whatever keeps an archive from being stored, a stop keeps the files, and answers as
// the published client needs it. Only force loses them.
func TestStopThatCannotSave(t *testing.T) {
	t.Parallel()
	half := func(_ string, r io.Reader) error {
		_, err := io.CopyN(io.Discard, r, 1000)
		return errors.Join(err, errdefs.New(errdefs.Unavailable, "the blob store broke off"))
	}
	for name, put := range map[string]func(key string, r io.Reader) error{
		"the disk is full": func(string, io.Reader) error { return syscall.ENOSPC },
		"an error":         func(string, io.Reader) error { return errors.New("SlowDown") },
		"refused": func(string, io.Reader) error {
			return errdefs.New(errdefs.Unavailable, "the blob store refuses the daemon's access key")
		},
		"the upload is cut": half,
		"the answer is lost": func(_ string, r io.Reader) error {
			_, err := io.Copy(io.Discard, r)
			return errors.Join(err, errdefs.New(errdefs.Unavailable, "the blob store does not answer"))
		},
	} {
		for _, force := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, force %t", name, force), func(t *testing.T) {
				t.Parallel()
				store := newFaultyStore(t)
				s := startWith(t, store, surface.Options{})
				s.object(http.StatusCreated, "POST", base, `{"id":"`+someID+`"}`)
				s.object(http.StatusOK, "POST", one+"/exec", `{"command":"echo kept > f"}`)
				store.set(func() { store.put = put })
				path, want := one+"/stop/", "kept\n"
				if force {
					path, want = path+"?force=true", ""
				}
				s.want(http.StatusNoContent, "", "POST", path, "")
				ended := s.object(http.StatusOK, "GET", one, "")
				metadata, _ := ended["metadata"].(map[string]any)
				if ended["status"] != "terminated" || (metadata["unsaved"] == true) == force {
					t.Errorf("%v", ended)
				}
				if got := s.object(http.StatusOK, "POST", one+"/exec", `{"command":"cat f || true"}`); got["stdout"] != want {
					t.Errorf("%v", got)
				}
			})
		}
	}
	s := start(t)
	s.object(http.StatusCreated, "POST", base, `{"id":"`+someID+`"}`)
	s.want(http.StatusBadRequest, `{"force":["Must be a valid boolean."]}`, "DELETE", one+"?force=maybe", "")
}

// A snapshot of nothing is no snapshot, and does not become the latest.
func TestSnapshotOfNothing(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.object(http.StatusCreated, "POST", base, `{"id":"`+someID+`"}`)
	s.object(http.StatusOK, "POST", one+"/exec", `{"command":"echo kept > f; mkdir d"}`)
	made := s.object(http.StatusCreated, "POST", one+"/snapshots", `{"include_paths":["/workspace/f","/workspace/missing"]}`)
	s.want(http.StatusBadRequest, `{"detail":"Snapshot failed: include_paths match no file of the session"}`, "POST", one+"/snapshots", `{"include_paths":["/workspace/missing"]}`)
	s.object(http.StatusCreated, "POST", one+"/snapshots", `{"include_paths":["/workspace/d"]}`)
	now := s.object(http.StatusOK, "GET", one, "")
	if ids, _ := now["snapshot_ids"].([]any); len(ids) != 2 || ids[1] != made["id"] {
		t.Errorf("%v", now)
	}
}

// Where storage cannot be bounded it is accepted, and the answer says so. A limit that
// is too large is an error of the field that the client has sent.
func TestEphemeralStorage(t *testing.T) {
	t.Parallel()
	const body = `{"id":"` + someID + `","mode":"docker","cpu":"1","memory":"512Mi","ephemeral_storage":"1Gi"}`
	for name, bounded := range map[string]bool{"bounded": true, "unbounded": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startSuffixed(t, newFaultyStore(t), "", surface.Options{}, func(o *orchestrator.Options) {
				o.DiskLimited = func(driver string, _ bool) bool { return bounded || driver != "native" }
			})
			made := s.object(http.StatusCreated, "POST", base, body)
			metadata, _ := made["metadata"].(map[string]any)
			if enforced, told := metadata["ephemeral_storage_enforced"]; told == bounded || !bounded && enforced != false || made["ephemeral_storage"] != "1Gi" {
				t.Errorf("%v", made)
			}
		})
	}
	s := start(t)
	for field, value := range map[string]string{"ephemeral_storage": "900Ti", "memory": "900Ti", "cpu": "9999"} {
		a := s.do("POST", base, `{"`+field+`":"`+value+`"}`)
		if a.status != http.StatusBadRequest || !strings.HasPrefix(a.body, `{"`+field+`":["must be`) {
			t.Errorf("%s: %d %s", field, a.status, a.body)
		}
	}
}
