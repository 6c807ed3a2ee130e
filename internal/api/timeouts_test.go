package api_test

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
)

// pipe serves handler on one connection within a synctest bubble and returns
// its other end. The server is gone when the bubble ends.
func pipe(t *testing.T, handler http.Handler) net.Conn {
	t.Helper()
	ours, theirs := net.Pipe()
	l := &listener{conns: make(chan net.Conn, 1), closed: make(chan struct{})}
	l.conns <- theirs
	server := api.NewServer(handler, slog.New(slog.DiscardHandler))
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-done
		if err := ours.Close(); err != nil {
			t.Error(err)
		}
	})
	return ours
}

type listener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// ended is when and how a handler ended.
type ended struct {
	at  time.Duration
	err error // of the last thing it did
}

// TestStalledBody is a client, with and without a key, that announces a body
// and never sends it. (A06, A07)
func TestStalledBody(t *testing.T) {
	for name, key := range map[string]string{"with a key": goodKey, "without": ""} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn := pipe(t, handler(t))
				begin := time.Now()
				if _, err := io.WriteString(conn, "POST /thing/1 HTTP/1.1\r\nHost: localhost\r\nX-API-Key: "+key+"\r\nContent-Length: 100\r\n\r\nhalf"); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadAll(conn); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begin); took > api.BodyTimeout+time.Second {
					t.Errorf("the connection was held for %v", took)
				}
			})
		})
	}
}

// TestStalledHeader is slowloris.
func TestStalledHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := pipe(t, handler(t))
		begin := time.Now()
		if _, err := io.WriteString(conn, "GET /thing/1 HTTP/1.1\r\nHost: loc"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(conn); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took > 6*time.Second {
			t.Errorf("the connection was held for %v", took)
		}
	})
}

// TestStalledReader is a client that does not take its answer.
func TestStalledReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan ended, 1)
		conn := pipe(t, api.Handler(api.Options{}, api.Surface{Routes: []api.Route{{
			Pattern: "GET /big", Scope: api.Public, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				begin := time.Now()
				_, err := w.Write(make([]byte, 1<<20))
				done <- ended{time.Since(begin), err}
			}),
		}}}))
		if _, err := io.WriteString(conn, "GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if e := <-done; e.err == nil || e.at != api.WriteTimeout {
			t.Errorf("the write ended with %v after %v", e.err, e.at)
		}
	})
}

// TestKeptConnection waits long between two requests, and longer inside the
// second: no deadline of the first or of its own body may end it.
func TestKeptConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); err != nil {
				t.Error(err)
			}
			if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); err != nil {
				t.Error(err)
			}
			select {
			case <-r.Context().Done():
				t.Error("the request was ended")
			case <-time.After(10 * time.Minute):
			}
			api.WriteJSON(w, r, http.StatusOK, "done")
		})
		conn := pipe(t, api.Handler(api.Options{}, api.Surface{Routes: []api.Route{{Pattern: "POST /slow", Scope: api.Public, Handler: slow}}}))
		answers := bufio.NewReader(conn)
		for range 2 {
			if _, err := io.WriteString(conn, "POST /slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody"); err != nil {
				t.Fatal(err)
			}
			response, err := http.ReadResponse(answers, nil)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(response.Body)
			if err != nil || !strings.Contains(string(body), "done") {
				t.Errorf("%s, %v", body, err)
			}
			time.Sleep(time.Minute + 30*time.Second)
		}
	})
}
