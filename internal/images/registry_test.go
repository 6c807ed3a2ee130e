package images_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images"
)

// server is a registry in memory. Tests may look at requests, or answer them
// instead.
type server struct {
	host string

	mu        sync.Mutex
	requests  []string                                          // guarded by mu
	intercept func(w http.ResponseWriter, r *http.Request) bool // guarded by mu
}

func newServer(t *testing.T) *server {
	t.Helper()
	t.Setenv("HOME", t.TempDir()) // no credentials of whoever runs the tests
	s := &server{}
	inner := registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)))
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r.Method+" "+r.URL.Path)
		intercept := s.intercept
		s.mu.Unlock()
		if intercept == nil || !intercept(w, r) {
			inner.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(ts.Close)
	s.host = strings.TrimPrefix(ts.URL, "http://")
	return s
}

func (s *server) answer(f func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intercept, s.requests = f, nil
}

// fetched counts the GETs of blobs since the last answer.
func (s *server) fetched() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.requests {
		if strings.HasPrefix(r, "GET ") && strings.Contains(r, "/blobs/") {
			n++
		}
	}
	return n
}

// push stores an image and returns its reference.
func (s *server) push(t *testing.T, repo string, img v1.Image) string {
	t.Helper()
	ref, err := name.ParseReference(s.host + "/" + repo)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	if err := remote.Write(ref, img, remote.WithTransport(transport)); err != nil {
		t.Fatal(err)
	}
	return ref.String()
}

func pull(t *testing.T, s *images.Store, ref string) (images.Image, error) {
	t.Helper()
	return s.Pull(t.Context(), images.PullRequest{Ref: ref, Name: "pulled"})
}

func TestPull(t *testing.T) {
	srv := newServer(t)
	base := tarLayer(t, rootfs(t))
	middle := tarLayer(t, archive(t, item{name: "middle", body: "x"}))
	ref := srv.push(t, "a/b:1", ociImage(t, base, middle, tarLayer(t, archive(t, item{name: "top", body: "x"}))))
	dir := filepath.Join(t.TempDir(), "images")
	s := open(t, inDir(dir))
	var phases []string
	img, err := s.Pull(t.Context(), images.PullRequest{Ref: ref, Progress: func(p images.Progress) { phases = append(phases, p.Phase) }})
	if err != nil {
		t.Fatal(err)
	}
	if len(img.Layers) != 3 || len(img.Names) != 1 || img.Names[0] != ref || !strings.Contains(img.Source, "a/b:1@sha256:") {
		t.Errorf("image %+v", img)
	}
	for _, name := range []string{"middle", "top", "bin/sh"} {
		if _, err := view(t, s, img.Digest).Stat(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if all := strings.Join(phases, "\n"); !strings.Contains(all, "resolve ") || !strings.Contains(all, "layer 3 of 3") {
		t.Errorf("phases %q", phases)
	}
	if left := entries(t, filepath.Join(dir, "staging")); len(left) > 0 {
		t.Errorf("staging holds %v", left)
	}

	// What is here is not fetched again: once the configuration, and one layer.
	other := srv.push(t, "other", ociImage(t, base, middle, tarLayer(t, archive(t, item{name: "new", body: "x"}))))
	srv.answer(nil)
	if _, err := pull(t, s, other); err != nil {
		t.Fatal(err)
	}
	if n := srv.fetched(); n != 2 {
		t.Errorf("%d blobs were fetched, want 2", n)
	}
}

func TestPullByDigest(t *testing.T) {
	srv := newServer(t)
	one, two := ociImage(t, tarLayer(t, rootfs(t))), ociImage(t, tarLayer(t, rootfs(t, item{name: "two", body: "x"})))
	srv.push(t, "x:1", one)
	digest, err := one.Digest()
	if err != nil {
		t.Fatal(err)
	}
	srv.push(t, "x:1", two) // the tag moves
	s := open(t)
	img, err := pull(t, s, srv.host+"/x@"+digest.String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := view(t, s, img.Digest).Stat("two"); err == nil {
		t.Error("the tag was followed instead of the digest")
	}
}

func TestPullWithCredentials(t *testing.T) {
	srv := newServer(t)
	ref := srv.push(t, "private", ociImage(t, tarLayer(t, rootfs(t))))
	srv.answer(func(w http.ResponseWriter, r *http.Request) bool {
		user, pass, _ := r.BasicAuth()
		if user == "me" && pass == "secret" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		http.Error(w, `{"errors":[{"code":"UNAUTHORIZED"}]}`, http.StatusUnauthorized)
		return true
	})
	s := open(t)
	if _, err := pull(t, s, ref); !errdefs.Is(err, errdefs.PermissionDenied) || !strings.Contains(errdefs.MessageOf(err), "docker login") {
		t.Errorf("without credentials: %v", err)
	}
	file := filepath.Join(os.Getenv("HOME"), ".docker", "config.json")
	t.Setenv("DOCKER_CONFIG", filepath.Dir(file)) // the library that reads it remembers the first HOME
	text := fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, srv.host, base64.StdEncoding.EncodeToString([]byte("me:secret")))
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := pull(t, s, ref); err != nil {
		t.Errorf("with credentials: %v", err)
	}
}

func TestPullRefuses(t *testing.T) {
	srv := newServer(t)
	ref := srv.push(t, "x", ociImage(t, tarLayer(t, rootfs(t))))
	onBlob := func(f func(w http.ResponseWriter, r *http.Request)) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/blobs/") {
				return false
			}
			f(w, r)
			return true
		}
	}
	tests := map[string]struct {
		ref    string
		answer func(w http.ResponseWriter, r *http.Request) bool
		codes  []errdefs.Code
	}{
		"other bytes": {ref, onBlob(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, strings.Repeat("x", 300))
		}), []errdefs.Code{errdefs.Unprocessable}},
		"endless blob": {ref, onBlob(func(w http.ResponseWriter, r *http.Request) {
			for range 1000 {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		}), []errdefs.Code{errdefs.Unprocessable}},
		"endless manifest": {ref, func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/manifests/") {
				return false
			}
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			io.WriteString(w, `{"schemaVersion":2,"x":"`)
			for range 1000 {
				if _, err := w.Write([]byte(strings.Repeat("x", 64<<10))); err != nil {
					return true
				}
			}
			return true
		}, []errdefs.Code{errdefs.TooLarge}},
		"redirect to metadata": {ref, onBlob(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusFound)
		}), []errdefs.Code{errdefs.Unavailable, errdefs.InvalidArgument}},
		"redirect to plain HTTP": {ref, onBlob(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://192.0.2.1/blob", http.StatusFound)
		}), []errdefs.Code{errdefs.InvalidArgument}},
		"token from metadata": {ref, func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://169.254.169.254/token",service="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}, []errdefs.Code{errdefs.Unavailable, errdefs.InvalidArgument, errdefs.PermissionDenied}},
		"unknown type": {ref, func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/manifests/") {
				return false
			}
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, "<html>")
			return true
		}, []errdefs.Code{errdefs.Unprocessable}},
		"no such image":   {srv.host + "/absent:1", nil, []errdefs.Code{errdefs.NotFound}},
		"not a reference": {"UPPER//x", nil, []errdefs.Code{errdefs.InvalidArgument}},
		"an option":       {"--privileged", nil, []errdefs.Code{errdefs.InvalidArgument}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			srv.answer(tt.answer)
			dir := filepath.Join(t.TempDir(), "images")
			_, err := pull(t, open(t, inDir(dir)), tt.ref)
			ok := false
			for _, code := range tt.codes {
				ok = ok || errdefs.Is(err, code)
			}
			if !ok {
				t.Errorf("got %v (%s), want one of %v", err, errdefs.CodeOf(err), tt.codes)
			}
			for _, d := range []string{"names", "images", "staging", "layers"} {
				if left := entries(t, filepath.Join(dir, d)); len(left) > 0 {
					t.Errorf("%s holds %v", d, left)
				}
			}
		})
	}
}

// A download that breaks off leaves what was finished for the next try.
func TestPullResumes(t *testing.T) {
	srv := newServer(t)
	first, second := tarLayer(t, rootfs(t)), tarLayer(t, archive(t, item{name: "x", body: "x"}))
	ref := srv.push(t, "x", ociImage(t, first, second))
	bad, err := second.Digest()
	if err != nil {
		t.Fatal(err)
	}
	good, err := first.Digest()
	if err != nil {
		t.Fatal(err)
	}
	store := filepath.Join(t.TempDir(), "images")
	waiting, once := make(chan struct{}), sync.Once{}
	srv.answer(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, bad.String()) {
			return false
		}
		select { // only when the first layer is stored, so that the test knows what is
		case <-waiting:
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusNotFound)
		return true
	})
	unpacked := false
	_, err = open(t, inDir(store)).Pull(t.Context(), images.PullRequest{Ref: ref, Progress: func(p images.Progress) {
		unpacked = unpacked || p.Phase == "layer 1 of 2"
		if unpacked && p.Phase == "download" {
			once.Do(func() { close(waiting) })
		}
	}})
	if err == nil {
		t.Fatal("an image without a layer was stored")
	}
	srv.answer(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, good.String()) {
			t.Error("the first layer was fetched again")
		}
		return false
	})
	if _, err := pull(t, open(t, inDir(store)), ref); err != nil {
		t.Error(err)
	}
}

func TestPullCanceled(t *testing.T) {
	srv := newServer(t)
	ref := srv.push(t, "x", ociImage(t, tarLayer(t, rootfs(t)), tarLayer(t, archive(t, item{name: "x", body: "x"}))))
	ctx, cancel := context.WithCancel(t.Context())
	var blobs atomic.Int32
	srv.answer(func(_ http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/blobs/") {
			return false
		}
		if blobs.Add(1) == 1 {
			return false // the configuration
		}
		cancel()
		<-r.Context().Done()
		return true
	})
	dir := filepath.Join(t.TempDir(), "images")
	if _, err := open(t, inDir(dir)).Pull(ctx, images.PullRequest{Ref: ref}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	if left := entries(t, filepath.Join(dir, "staging")); len(left) > 0 {
		t.Errorf("staging holds %v", left)
	}
}
