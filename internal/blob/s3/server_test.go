package s3_test

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/sandkasten/sandkasten/internal/blob/s3"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// server is a real S3 server behind a proxy in which tests break things.
type server struct {
	dir   string // its buckets
	proxy *httptest.Server
	fault atomic.Pointer[fault]
}

// fault sees a request before the server does and reports whether it has dealt
// with it.
type fault func(w http.ResponseWriter, r *http.Request) bool

const (
	accessKey = "test-access-key"
	secretKey = "test-secret-key"
	region    = "eu-test-1"
)

// serve runs a server until the test ends. It listens on a socket in a
// directory of the test, so that no port has to be guessed.
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
	dir, err := os.MkdirTemp("", "s3") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	s := &server{dir: filepath.Join(dir, "buckets")}
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "socket")
	bin := testenv.Tool(t, "tools/s3", "github.com/versity/versitygw/cmd/versitygw")
	cmd := exec.Command(bin, "--port", socket, "--access", accessKey, "--secret", secretKey, "--region", region, "--quiet", "posix", s.dir)
	log := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = cmd.Wait() // killed below
	}()
	t.Cleanup(func() {
		if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Error(err)
		}
		<-gone
		if t.Failed() {
			t.Logf("the server wrote:\n%s", log)
		}
	})
	await(t, socket, gone)
	s.proxy = httptest.NewUnstartedServer(s)
	s.proxy.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0) // of connections that tests break
	t.Cleanup(s.proxy.Close)
	return s
}

// await returns when something listens at socket.
func await(t *testing.T, socket string, gone <-chan struct{}) {
	t.Helper()
	for {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			conn.Close()
			return
		}
		select {
		case <-gone:
			t.Fatal("the S3 server ended")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// ServeHTTP passes requests on as they are: their signatures cover the host.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f := s.fault.Load(); f != nil && (*f)(w, r) {
		return
	}
	proxy := &httputil.ReverseProxy{
		ErrorLog: s.proxy.Config.ErrorLog,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = "http", "server", p.In.Host
		},
		Transport: &http.Transport{
			DisableKeepAlives:  true,
			DisableCompression: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(filepath.Dir(s.dir), "socket"))
			},
		},
	}
	proxy.ServeHTTP(w, r)
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
		Endpoint: s.proxy.URL, Region: region, Bucket: bucket, PathStyle: true, AccessKey: accessKey, SecretKey: secretKey,
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
		Creds: credentials.NewStaticV4(accessKey, secretKey, ""), Region: region, BucketLookup: minio.BucketLookupPath,
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
