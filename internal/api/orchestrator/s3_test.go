package orchestrator_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	surface "github.com/sandkasten/sandkasten/internal/api/orchestrator"
	"github.com/sandkasten/sandkasten/internal/blob"
	"github.com/sandkasten/sandkasten/internal/blob/s3"
	"github.com/sandkasten/sandkasten/internal/blob/s3/s3test"
)

// bucket is one on a real S3 server, behind a proxy that can break its connections.
type bucket struct {
	dir   string // its objects
	store *s3.Store
	url   string
	down  atomic.Bool
	cut   atomic.Int64 // bytes of an answer behind which its connection breaks; 0 is none
}

// s3Client is that of who follows a link.
var s3Client = &http.Client{Timeout: time.Minute}

// newBucket runs a server until the test ends.
func newBucket(t *testing.T) *bucket {
	t.Helper()
	buckets, socket := s3test.Start(t)
	b := &bucket{dir: filepath.Join(buckets, "boxes")}
	if err := os.Mkdir(b.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	b.url = b.proxy(t, socket)
	var err error
	b.store, err = s3.New(s3.Options{
		Endpoint: b.url, Region: s3test.Region, Bucket: "boxes", Prefix: "host-a/", PathStyle: true, AccessKey: s3test.AccessKey, SecretKey: s3test.SecretKey,
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// proxy passes connections on, and breaks them as the bucket says.
func (b *bucket) proxy(t *testing.T, socket string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go b.pass(client, socket)
		}
	}()
	return "http://" + listener.Addr().String()
}

func (b *bucket) pass(client net.Conn, socket string) {
	defer client.Close()
	server, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, &gate{client, func() bool { return !b.down.Load() }})
		_ = server.Close()
	}()
	answered := int64(0)
	chunk := make([]byte, 4<<10)
	for !b.down.Load() {
		n, err := server.Read(chunk)
		answered += int64(n)
		if most := b.cut.Load(); err != nil || most > 0 && answered > most {
			return
		}
		if _, err := client.Write(chunk[:n]); err != nil {
			return
		}
	}
}

// gate is a reader that ends when it is closed.
type gate struct {
	io.Reader

	open func() bool
}

func (g *gate) Read(p []byte) (int, error) {
	n, err := g.Reader.Read(p)
	if !g.open() {
		return 0, errors.New("down")
	}
	return n, err
}

// objects are the names of what is in the bucket.
func (b *bucket) objects(t *testing.T) (names []string) {
	t.Helper()
	err := filepath.WalkDir(b.dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			names = append(names, strings.TrimPrefix(path, b.dir+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// save makes a session with a file and ends it. It returns its snapshot.
func (s *server) save(content string) object {
	s.t.Helper()
	s.object(http.StatusCreated, "POST", base, `{"id":"`+someID+`"}`)
	s.object(http.StatusOK, "POST", one+"/exec", `{"command":"`+content+` > f"}`)
	s.want(http.StatusNoContent, "", "DELETE", one, "")
	all, _ := s.object(http.StatusOK, "GET", one+"/snapshots", "")["snapshots"].([]any)
	if len(all) == 0 {
		return nil
	}
	shot, _ := all[0].(map[string]any)
	return shot
}

// Archives are where clients of the original look for them, and are what they are
// called: tar, gzip and zstd unpack them.
func TestArchivesInABucket(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	s := startWith(t, b.store, surface.Options{Bucket: true, BucketPrefix: "host-a/"})
	shot := s.save("echo kept")
	id, _ := shot["id"].(string)
	key := "snapshots/" + someID + "/" + id + ".tar.gz"
	if shot["s3_key"] != "host-a/"+key || shot["archive_path"] != key {
		t.Errorf("%v", shot)
	}
	if got := b.objects(t); len(got) != 1 || got[0] != "host-a/"+key {
		t.Fatalf("the bucket has %q", got)
	}
	out, err := exec.CommandContext(t.Context(), "tar", "-tzf", filepath.Join(b.dir, "host-a", key)).CombinedOutput()
	if err != nil || string(out) != "manifest.json\nworkspace.tar.zst\n" {
		t.Errorf("tar: %v\n%s", err, out)
	}
	if got := s.object(http.StatusOK, "POST", one+"/exec", `{"command":"cat f"}`); got["stdout"] != "kept\n" {
		t.Errorf("%v", got)
	}
}

// A bucket's own links need no key of anybody, and say what a file is.
func TestLinksOfABucket(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	if _, err := b.store.Put(t.Context(), "artifacts/a", strings.NewReader("content")); err != nil {
		t.Fatal(err)
	}
	link, err := b.store.Link(t.Context(), "artifacts/a", time.Hour, map[string][]string{"response-content-type": {"text/plain"}})
	if err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]int{link: http.StatusOK, strings.Split(link, "?")[0]: http.StatusForbidden, link + "0": http.StatusForbidden} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := s3Client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil || resp.StatusCode != want || want == http.StatusOK && string(text) != "content" {
			t.Errorf("%d %s, %v; want %d", resp.StatusCode, text, err, want)
		}
	}
}

func TestEncryptedArchivesSaySo(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	hidden, err := blob.NewEncrypted(b.store, make([]byte, blob.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	s := startSuffixed(t, hidden, ".enc", surface.Options{})
	shot := s.save("echo kept")
	name, _ := shot["archive_path"].(string)
	if got := b.objects(t); len(got) != 1 || got[0] != "host-a/"+name || !strings.HasSuffix(name, ".tar.gz.enc") {
		t.Fatalf("the bucket has %q, the snapshot %q", got, name)
	}
	if got := s.object(http.StatusOK, "POST", one+"/exec", `{"command":"cat f"}`); got["stdout"] != "kept\n" {
		t.Errorf("%v", got)
	}
}

// A session ends whose archive cannot be kept. Its files are, and the next create has
// them, whether the bucket is there again or not.
func TestBucketIsDownAtStop(t *testing.T) {
	t.Parallel()
	for name, back := range map[string]bool{"and stays down": false, "and is there again": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBucket(t)
			s := startWith(t, b.store, surface.Options{})
			s.object(http.StatusCreated, "POST", base, `{"id":"`+someID+`"}`)
			s.object(http.StatusOK, "POST", one+"/exec", `{"command":"echo kept > f"}`)
			b.down.Store(true)
			s.want(http.StatusNoContent, "", "DELETE", one, "")
			ended := s.object(http.StatusOK, "GET", one, "")
			metadata, _ := ended["metadata"].(map[string]any)
			if ended["status"] != "terminated" || ended["error_message"] != "Snapshot auto-stop failed: the blob store does not answer: try again later" || metadata["unsaved"] != true {
				t.Errorf("%v", ended)
			}
			if back {
				b.down.Store(false)
				s.want(http.StatusNoContent, "", "DELETE", one, "")
				if got := b.objects(t); len(got) != 1 {
					t.Errorf("the bucket has %q", got)
				}
			}
			begun := s.object(http.StatusCreated, "POST", base, `{"id":"`+someID+`"}`)
			if metadata, _ := begun["metadata"].(map[string]any); metadata["unsaved"] != nil || begun["error_message"] != "" {
				t.Errorf("%v", begun)
			}
			if got := s.object(http.StatusOK, "POST", one+"/exec", `{"command":"cat f"}`); got["stdout"] != "kept\n" {
				t.Errorf("%v", got)
			}
		})
	}
}

// A bucket that does not answer, or breaks off, is no lost archive: the next create
// restores it.
func TestBucketIsDownAtRestore(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*bucket){
		"down":       func(b *bucket) { b.down.Store(true) },
		"breaks off": func(b *bucket) { b.cut.Store(100_000) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBucket(t)
			s := startWith(t, b.store, surface.Options{})
			s.save("head -c 300000 /dev/urandom")
			spoil(b)
			if a := s.do("POST", base, `{"id":"`+someID+`"}`); a.status != http.StatusServiceUnavailable {
				t.Errorf("%d %s", a.status, a.body)
			}
			failed := s.object(http.StatusOK, "GET", one, "")
			if metadata, _ := failed["metadata"].(map[string]any); failed["status"] != "failed" || metadata["terminated_reason"] != nil {
				t.Errorf("%v", failed)
			}
			b.down.Store(false)
			b.cut.Store(0)
			s.object(http.StatusCreated, "POST", base, `{"id":"`+someID+`"}`)
			if got := s.object(http.StatusOK, "POST", one+"/exec", `{"command":"stat -c %s f"}`); got["stdout"] != "300000\n" {
				t.Errorf("%v", got)
			}
		})
	}
}

// A removal ends when the store answers again: nothing is left that nobody knows of.
func TestBucketIsDownAtExport(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	s := startWith(t, b.store, surface.Options{})
	s.object(http.StatusCreated, "POST", base, `{"id":"`+someID+`"}`)
	s.object(http.StatusOK, "POST", one+"/exec", `{"command":"echo one > a; echo two > b"}`)
	s.object(http.StatusCreated, "POST", one+"/files/export", `{"path":"a"}`)
	b.down.Store(true)
	if a := s.do("POST", one+"/files/export", `{"path":"b"}`); a.status != http.StatusServiceUnavailable {
		t.Errorf("%d %s", a.status, a.body)
	}
	if err := s.kept.RemoveOwner(t.Context(), "alice"); err == nil {
		t.Error("an owner's artifacts were removed from a bucket that is down")
	}
	if n := len(s.artifacts()); n != 0 {
		t.Errorf("%d artifacts are shown that are being removed", n)
	}
	b.down.Store(false)
	if err := s.kept.Round(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	if left := b.objects(t); len(left) != 0 {
		t.Errorf("%q are left", left)
	}
}
