package s3test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Breakable is a bucket of a real server behind what makes it fail. It may be used by
// several goroutines.
type Breakable struct {
	proxy *httptest.Server

	mu     sync.Mutex
	broken map[string]Way // guarded by mu; by what is in the URL of the requests
}

// Way is how a bucket fails. It deals with a request, or has next deal with it.
type Way func(w http.ResponseWriter, r *http.Request, next http.Handler)

const bucket = "boxes"

// StartBreakable runs a server until the test ends.
func StartBreakable(t *testing.T) *Breakable {
	t.Helper()
	buckets, socket := Start(t)
	if err := os.Mkdir(filepath.Join(buckets, bucket), 0o700); err != nil {
		t.Fatal(err)
	}
	pass := Forward(socket)
	pass.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	b := &Breakable{broken: map[string]Way{}}
	b.proxy = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if way := b.wayOf(r); way != nil {
			way(w, r, pass)
			return
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(b.proxy.Close)
	return b
}

// Config has a daemon keep its snapshots in the bucket.
func (b *Breakable) Config() string {
	return fmt.Sprintf("snapshots: {store: s3, s3_endpoint: %q, s3_region: %s, s3_bucket: %s, s3_access_key: %s, s3_secret_key: %s}\n", b.proxy.URL, Region, bucket, AccessKey, SecretKey)
}

// Break makes requests fail that have a text in their URL, until mend is called. All have
// an empty one.
func (b *Breakable) Break(text string, way Way) (mend func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken[text] = way
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.broken, text)
	}
}

func (b *Breakable) wayOf(r *http.Request) Way {
	b.mu.Lock()
	defer b.mu.Unlock()
	for text, way := range b.broken {
		if strings.Contains(r.URL.String(), text) {
			return way
		}
	}
	return nil
}

// Ways are how buckets fail, by their names.
var Ways = map[string]Way{
	"an error of the server": says(http.StatusInternalServerError, "InternalError"),
	"slow down":              says(http.StatusServiceUnavailable, "SlowDown"),
	"refused":                says(http.StatusForbidden, "AccessDenied"),
	"an expired token":       says(http.StatusBadRequest, "ExpiredToken"),
	"no bucket":              says(http.StatusNotFound, "NoSuchBucket"),
	"hung up":                func(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) },
	"an upload is cut":       cut,
	"an answer is lost":      forget,
}

func says(status int, code string) Way {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>no</Message></Error>", code)
	}
}

// cut breaks uploads off in their middle.
func cut(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if r.Method != http.MethodPut {
		next.ServeHTTP(w, r)
		return
	}
	_, _ = io.CopyN(io.Discard, r.Body, 100) // a short one is cut, too
	panic(http.ErrAbortHandler)
}

// forget has the server do what it is asked, and keeps the answer to what changes something.
func forget(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		next.ServeHTTP(w, r)
		return
	}
	next.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}
