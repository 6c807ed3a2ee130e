package s3_test

import (
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/sandkasten/sandkasten/internal/blob/s3"
	"github.com/sandkasten/sandkasten/internal/blob/s3/s3test"
)

// server is a real S3 server behind a proxy in which tests break things.
type server struct {
	dir     string // its buckets
	forward *httputil.ReverseProxy
	proxy   *httptest.Server
	fault   atomic.Pointer[fault]
}

// fault sees a request before the server does and reports whether it has dealt
// with it.
type fault func(w http.ResponseWriter, r *http.Request) bool

// serve runs a server until the test ends.
func serve(t *testing.T) *server {
	t.Helper()
	s := newServer(t)
	s.proxy.Start()
	return s
}

func serveTLS(t *testing.T) *server {
	t.Helper()
	s := newServer(t)
	s.proxy.StartTLS()
	return s
}

func newServer(t *testing.T) *server {
	t.Helper()
	dir, socket := s3test.Start(t)
	s := &server{dir: dir, forward: s3test.Forward(socket)}
	s.proxy = httptest.NewUnstartedServer(s)
	s.proxy.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0) // of connections that tests break
	s.forward.ErrorLog = s.proxy.Config.ErrorLog
	t.Cleanup(s.proxy.Close)
	return s
}

// ServeHTTP passes requests on.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f := s.fault.Load(); f != nil && (*f)(w, r) {
		return
	}
	s.forward.ServeHTTP(w, r)
}

// inject makes f see all further requests.
func (s *server) inject(f fault) { s.fault.Store(&f) }

// down makes the server break every connection, until up.
func (s *server) down() {
	s.inject(func(w http.ResponseWriter, _ *http.Request) bool { return hangUp(w) })
}
func (s *server) up() { s.fault.Store(nil) }

func hangUp(w http.ResponseWriter) bool {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		conn.Close()
	}
	return true
}

// part returns the number of the part that r sends, or "".
func part(r *http.Request) string {
	if r.Method != http.MethodPut {
		return ""
	}
	return r.URL.Query().Get("partNumber")
}

// options are those of a bucket that s has.
func (s *server) options(t *testing.T, bucket string) s3.Options {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(s.dir, bucket), 0o700); err != nil {
		t.Fatal(err)
	}
	return s3.Options{
		Endpoint: s.proxy.URL, Region: s3test.Region, Bucket: bucket, PathStyle: true, AccessKey: s3test.AccessKey, SecretKey: s3test.SecretKey,
	}
}

func open(t *testing.T, o s3.Options) *s3.Store {
	t.Helper()
	store, err := s3.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// files are all that the server keeps, parts of unfinished uploads too.
func (s *server) files(t *testing.T) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(s.dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && !strings.Contains(path, "/.vgw") {
			names = append(names, strings.TrimPrefix(path, s.dir+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// uploads counts the unfinished uploads of names in bucket that begin with
// prefix.
func (s *server) uploads(t *testing.T, bucket, prefix string) int {
	t.Helper()
	client, err := minio.New(hostOf(t, s.proxy.URL), &minio.Options{
		Creds: credentials.NewStaticV4(s3test.AccessKey, s3test.SecretKey, ""), Region: s3test.Region, BucketLookup: minio.BucketLookupPath,
	})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for upload := range client.ListIncompleteUploads(t.Context(), bucket, prefix, true) {
		if upload.Err != nil {
			t.Fatal(upload.Err)
		}
		n++
	}
	return n
}

func hostOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}
