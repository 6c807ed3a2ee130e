package main

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"
)

// A flaky stream breaks inside the event behind wholeEvents.
const (
	wholeEvents = 2
	partOfEvent = 10

	// How long behind its last byte it breaks. Bun throws away what arrives in the
	// same moment as the break, so that a stream would make no progress there.
	afterBytes = 20 * time.Millisecond
)

// errLost is what went wrong where the proxy makes something go wrong.
var errLost = errors.New("the connection broke, as it is meant to")

// flaky is a proxy whose network is bad in ways that can be repeated: the answer
// to the first request with each Idempotency-Key is lost after the daemon gave
// it, and every event stream breaks inside its third event.
type flaky struct {
	url    string
	server *http.Server
	served sync.WaitGroup

	mu   sync.Mutex
	seen map[string]bool // guarded by mu; Idempotency-Keys
}

// startFlaky serves at a free port of the loopback interface until close.
func startFlaky(target string) (*flaky, error) {
	to, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &flaky{url: "http://" + listener.Addr().String(), seen: make(map[string]bool)}
	proxy := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ModifyResponse: f.spoil,
		// No answer at all, as a client sees it.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	f.server = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			// Without this a request's body counts as broken if the answer begins
			// before its end was seen, and the answer breaks where none is to.
			if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
				panic(http.ErrAbortHandler)
			}
			proxy.ServeHTTP(w, r)
		}),
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	f.served.Go(func() { f.server.Serve(listener) }) //nolint:errcheck // it says that it was closed
	return f, nil
}

func (f *flaky) close() {
	f.server.Close() //nolint:errcheck // nobody is there to be told
	f.served.Wait()
}

func (f *flaky) spoil(resp *http.Response) error {
	if key := resp.Request.Header.Get("Idempotency-Key"); key != "" && f.first(key) {
		return errLost
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		resp.Body = &breaking{ReadCloser: resp.Body, left: wholeEvents}
	}
	return nil
}

func (f *flaky) first(key string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	first := !f.seen[key]
	f.seen[key] = true
	return first
}

// breaking is a stream that ends in an error inside the event behind those that
// are left.
type breaking struct {
	io.ReadCloser
	left    int
	newline bool // the last byte was one
	broken  bool
}

func (b *breaking) Read(p []byte) (int, error) {
	if b.broken {
		time.Sleep(afterBytes)
		return 0, errLost
	}
	n, err := b.ReadCloser.Read(p)
	whole := 0
	for whole < n && b.left > 0 {
		if b.newline && p[whole] == '\n' {
			b.left--
		}
		b.newline = p[whole] == '\n'
		whole++
	}
	if whole == n {
		return n, err
	}
	b.broken = true
	return min(n, whole+partOfEvent), nil
}
