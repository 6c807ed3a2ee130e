package s3_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/sandkasten/sandkasten/internal/blob"
	"github.com/sandkasten/sandkasten/internal/blob/blobtest"
	"github.com/sandkasten/sandkasten/internal/blob/s3"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// large takes three parts.
const large = 33 << 20

func TestStore(t *testing.T) {
	t.Parallel()
	s, n := serve(t), 0
	bucket := func(t *testing.T) s3.Options {
		n++
		return s.options(t, fmt.Sprintf("bucket-%d", n))
	}
	t.Run("Bucket", func(t *testing.T) {
		blobtest.TestStore(t, func(t *testing.T) blob.Store { return open(t, bucket(t)) })
	})
	t.Run("Prefix", func(t *testing.T) {
		blobtest.TestStore(t, func(t *testing.T) blob.Store {
			o := bucket(t)
			o.Prefix = "host-1/"
			return open(t, o)
		})
	})
	t.Run("Encrypted", func(t *testing.T) {
		blobtest.TestStore(t, func(t *testing.T) blob.Store {
			e, err := blob.NewEncrypted(open(t, bucket(t)), make([]byte, blob.KeySize))
			if err != nil {
				t.Fatal(err)
			}
			return e
		})
	})
}

func TestPrefixesAreApart(t *testing.T) {
	s := serve(t)
	o := s.options(t, "snapshots")
	o.Prefix = "a/"
	a := open(t, o)
	o.Prefix = "ab/"
	ab := open(t, o)
	blobtest.Put(t, a, "x", []byte("of a"))
	blobtest.Put(t, ab, "y", []byte("of ab"))
	if got := blobtest.Keys(t, a, ""); !slices.Equal(got, []string{"x"}) {
		t.Errorf("a has %q", got)
	}
	if got := blobtest.Keys(t, ab, ""); !slices.Equal(got, []string{"y"}) {
		t.Errorf("ab has %q", got)
	}
}

func TestPartsMakeOneBlob(t *testing.T) {
	s := serve(t)
	store := open(t, s.options(t, "snapshots"))
	var parts atomic.Int32
	s.inject(func(_ http.ResponseWriter, r *http.Request) bool {
		if part(r) != "" {
			parts.Add(1)
		}
		return false
	})
	data := blobtest.Bytes(large)
	blobtest.Put(t, store, "a", data)
	got, err := blobtest.Read(t.Context(), store, "a", 0)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("read %d bytes, %v, want the %d that were put", len(got), err, large)
	}
	if n := parts.Load(); n != 3 {
		t.Errorf("the blob took %d parts, want 3", n)
	}
}

// What goes wrong once is tried again, and nobody sees it.
func TestPutTriesAgain(t *testing.T) {
	t.Parallel()
	tests := map[string]fault{
		"busy": func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		},
		"server error": func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusInternalServerError)
			return true
		},
		"hang up": func(w http.ResponseWriter, _ *http.Request) bool { return hangUp(w) },
		"hang up half way": func(w http.ResponseWriter, r *http.Request) bool {
			if _, err := io.CopyN(io.Discard, r.Body, 100_000); err != nil {
				return false
			}
			return hangUp(w)
		},
	}
	s := serve(t)
	store := open(t, s.options(t, "snapshots"))
	data := blobtest.Bytes(large)
	for name, broken := range tests {
		t.Run(name, func(t *testing.T) {
			var hit atomic.Bool
			s.inject(func(w http.ResponseWriter, r *http.Request) bool {
				return part(r) == "2" && hit.CompareAndSwap(false, true) && broken(w, r)
			})
			blobtest.Put(t, store, "a", data)
			got, err := blobtest.Read(t.Context(), store, "a", 0)
			if err != nil || !bytes.Equal(got, data) || !hit.Load() {
				t.Errorf("read %d bytes, %v; the fault was met: %v", len(got), err, hit.Load())
			}
		})
	}
}

func TestFailedUploadLeavesNothing(t *testing.T) {
	t.Parallel()
	refuse := func(want string) fault {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if part(r) != want {
				return false
			}
			http.Error(w, "", http.StatusForbidden)
			return true
		}
	}
	tests := map[string]struct {
		fault  fault
		source io.Reader
	}{
		"first part refused":  {refuse("1"), bytes.NewReader(blobtest.Bytes(large))},
		"second part refused": {refuse("2"), bytes.NewReader(blobtest.Bytes(large))},
		"last part refused":   {refuse("3"), bytes.NewReader(blobtest.Bytes(large))},
		"completion refused": {func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPost || !r.URL.Query().Has("uploadId") {
				return false
			}
			http.Error(w, "", http.StatusForbidden)
			return true
		}, bytes.NewReader(blobtest.Bytes(large))},
		"source broken": {refuse("no part"), io.MultiReader(
			bytes.NewReader(blobtest.Bytes(large)), iotest.ErrReader(io.ErrUnexpectedEOF))},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			store := open(t, s.options(t, "snapshots"))
			s.inject(test.fault)
			if _, err := store.Put(t.Context(), "a", test.source); err == nil {
				t.Error("Put succeeded")
			}
			s.up()
			if got := blobtest.Keys(t, store, ""); len(got) > 0 {
				t.Errorf("the store has %q", got)
			}
			if files := s.files(t); len(files) > 0 {
				t.Errorf("the server keeps %q", files)
			}
		})
	}
}

// A server that is still busy with a part may keep it after the end of its
// upload, so Put awaits the answers to what it sent before it ends one.
func TestFailedUploadAwaitsItsParts(t *testing.T) {
	t.Parallel()
	s := serve(t)
	store := open(t, s.options(t, "snapshots"))
	sent, failed := make(chan struct{}), make(chan struct{})
	var busy atomic.Bool
	s.inject(func(_ http.ResponseWriter, r *http.Request) bool {
		switch {
		case part(r) == "2":
			data, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			busy.Store(true)
			close(sent)
			<-failed
			time.Sleep(200 * time.Millisecond) // in which an end could come
			r.Body = io.NopCloser(bytes.NewReader(data))
			busy.Store(false)
		case r.Method == http.MethodDelete && busy.Load():
			t.Error("the upload was ended before its parts were")
		}
		return false
	})
	breaks := iotest.ErrReader(io.ErrUnexpectedEOF)
	_, err := store.Put(t.Context(), "a", io.MultiReader(bytes.NewReader(blobtest.Bytes(large)), readerFunc(func(p []byte) (int, error) {
		<-sent
		defer close(failed)
		return breaks.Read(p)
	})))
	if err == nil {
		t.Error("Put succeeded")
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A Put whose caller gives up removes its parts all the same.
func TestCanceledUploadLeavesNothing(t *testing.T) {
	s := serve(t)
	store := open(t, s.options(t, "snapshots"))
	ctx, cancel := context.WithCancel(t.Context())
	s.inject(func(_ http.ResponseWriter, r *http.Request) bool {
		if part(r) == "3" {
			cancel()
		}
		return false
	})
	if _, err := store.Put(ctx, "a", bytes.NewReader(blobtest.Bytes(large))); err == nil {
		t.Error("a canceled Put succeeded")
	}
	s.up()
	if files := s.files(t); len(files) > 0 {
		t.Errorf("the server keeps %q", files)
	}
}

func TestSweepEndsWhatACrashLeft(t *testing.T) {
	t.Parallel()
	s := serve(t)
	o := s.options(t, "snapshots")
	o.Prefix = "ours/"
	store := open(t, o)
	o.Prefix = "theirs/"
	other := open(t, o)
	blobtest.Put(t, store, "whole", []byte("x"))
	for _, crashing := range []*s3.Store{store, other} {
		s.inject(func(w http.ResponseWriter, r *http.Request) bool {
			if part(r) != "3" {
				return false
			}
			s.down() // and so the parts cannot be removed
			return hangUp(w)
		})
		_, err := crashing.Put(t.Context(), "half", bytes.NewReader(blobtest.Bytes(large)))
		blobtest.WantCode(t, "Put to a server that went away", err, errdefs.Unavailable)
		s.up()
	}
	parts := func() (ours, theirs int) {
		return s.uploads(t, "snapshots", "ours/"), s.uploads(t, "snapshots", "theirs/")
	}
	if ours, theirs := parts(); ours != 1 || theirs != 1 {
		t.Fatalf("%d and %d uploads are left, so this tests nothing", ours, theirs)
	}
	if got := blobtest.Keys(t, store, ""); !slices.Equal(got, []string{"whole"}) {
		t.Errorf("before Sweep the store has %q", got)
	}
	if err := store.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if ours, theirs := parts(); ours != 0 || theirs != 1 {
		t.Errorf("after Sweep %d uploads of ours and %d of others are left, want 0 and 1", ours, theirs)
	}
	if got := blobtest.Keys(t, store, ""); !slices.Equal(got, []string{"whole"}) {
		t.Errorf("after Sweep the store has %q", got)
	}
}

// What only an operator can mend is told apart, to clients without a word of
// where the store is, and to the log with all.
func TestOperatorsMistakesAreClear(t *testing.T) {
	t.Parallel()
	s := serve(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	tests := map[string]struct {
		change func(o *s3.Options)
		client string // in the client's text
		log    string // in the operator's
	}{
		"unknown key":  {func(o *s3.Options) { o.AccessKey = "nobody" }, "refuses the daemon's access key", "bucket snapshots"},
		"wrong secret": {func(o *s3.Options) { o.SecretKey = "wrong" }, "refuses the daemon's access key", "ignature"},
		"wrong region": {func(o *s3.Options) { o.Region = "us-wrong-1" }, "refuses the daemon's access key", "egion"},
		"no bucket":    {func(o *s3.Options) { o.Bucket = "absent" }, "does not know its bucket", "bucket absent"},
		"unreachable":  {func(o *s3.Options) { o.Endpoint = "http://" + closed.Addr().String() }, "does not answer", "connection refused"},
		"TLS to plain": {func(o *s3.Options) { o.Endpoint = "https://" + hostOf(t, s.proxy.URL) }, "does not answer", "HTTP response to HTTPS client"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o := s.options(t, "snapshots")
			test.change(&o)
			store := open(t, o)
			_, put := store.Put(t.Context(), "a", strings.NewReader("x"))
			_, read := store.Open(t.Context(), "a", 0)
			for op, err := range map[string]error{"Put": put, "Open": read, "Sweep": store.Sweep(t.Context())} {
				blobtest.WantCode(t, op, err, errdefs.Unavailable)
				if text := errdefs.MessageOf(err); !strings.Contains(text, test.client) || strings.Contains(text, hostOf(t, o.Endpoint)) {
					t.Errorf("%s tells clients %q, want %q in it and no address", op, text, test.client)
				}
				if err != nil && !strings.Contains(err.Error(), test.log) {
					t.Errorf("%s tells the log %q, want %q in it", op, err, test.log)
				}
			}
		})
	}
}

// A store that refuses says nothing about a blob: it is in trouble until its operator
// mends that, whatever the refusal is called.
func TestRefusalsAreTheStoresTrouble(t *testing.T) {
	t.Parallel()
	s := serve(t)
	store := open(t, s.options(t, "snapshots"))
	blobtest.Put(t, store, "a", []byte("kept"))
	for _, test := range []struct {
		status       int
		code, client string
	}{
		{http.StatusBadRequest, "ExpiredToken", "refuses the daemon's access key"},
		{http.StatusBadRequest, "InvalidToken", "refuses the daemon's access key"},
		{http.StatusBadRequest, "TokenRefreshRequired", "refuses the daemon's access key"},
		{http.StatusForbidden, "RequestTimeTooSkewed", "clock"},
		{http.StatusForbidden, "AllAccessDisabled", "refuses the daemon's access key"},
		{http.StatusForbidden, "QuotaExceeded", "refuses a request"},
		{http.StatusUnauthorized, "NobodyKnows", "refuses a request"},
		{http.StatusTooManyRequests, "TooManyRequests", "refuses a request"},
		{http.StatusConflict, "OperationAborted", "refuses a request"},
		{http.StatusInsufficientStorage, "XMinioStorageFull", "does not answer"},
	} {
		t.Run(test.code, func(t *testing.T) {
			s.inject(func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Content-Type", "application/xml")
				w.WriteHeader(test.status)
				fmt.Fprintf(w, "<Error><Code>%s</Code><Message>no</Message></Error>", test.code)
				return true
			})
			defer s.up()
			_, put := store.Put(t.Context(), "b", strings.NewReader("x"))
			_, opened := store.Open(t.Context(), "a", 0)
			_, seen := store.Stat(t.Context(), "a")
			for op, err := range map[string]error{"put": put, "open": opened, "stat": seen, "delete": store.Delete(t.Context(), "a")} {
				blobtest.WantCode(t, op, err, errdefs.Unavailable)
				if text := errdefs.MessageOf(err); op != "stat" && !strings.Contains(text, test.client) { // an answer to HEAD has no body
					t.Errorf("%s tells clients %q, want %q in it", op, text, test.client)
				}
			}
		})
	}
	if got := blobtest.Keys(t, store, ""); !slices.Equal(got, []string{"a"}) {
		t.Errorf("the store has %q", got)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	s := serveTLS(t)
	o := s.options(t, "snapshots")
	_, err := open(t, o).Put(t.Context(), "a", strings.NewReader("x"))
	blobtest.WantCode(t, "Put to a server nobody vouches for", err, errdefs.Unavailable)

	o.CAFile = filepath.Join(t.TempDir(), "ca.pem")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: s.proxy.Certificate().Raw}
	if err := os.WriteFile(o.CAFile, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	store := open(t, o)
	data := blobtest.Bytes(large)
	blobtest.Put(t, store, "a", data)
	got, err := blobtest.Read(t.Context(), store, "a", 1)
	if err != nil || !bytes.Equal(got, data[1:]) {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
}

func TestCAFileHasToHoldOne(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, file + ".absent"} {
		_, err := s3.New(s3.Options{Endpoint: "https://127.0.0.1:1", Bucket: "snapshots", CAFile: path})
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("New with %s: %v, want the file named", path, err)
		}
	}
}
