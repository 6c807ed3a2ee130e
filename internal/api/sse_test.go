package api_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
)

func TestEvents(t *testing.T) {
	w := httptest.NewRecorder()
	e := api.StartEvents(deadlines{ResponseWriter: w})
	if err := e.Send("chunk", "7", map[string]string{"chunk": "a\n\nevent: done\r<b>"}); err != nil {
		t.Fatal(err)
	}
	if err := e.Send("done", "", struct{}{}); err != nil {
		t.Fatal(err)
	}
	e.Close()
	const want = "event: chunk\nid: 7\ndata: {\"chunk\":\"a\\n\\nevent: done\\r<b>\"}\n\nevent: done\ndata: {}\n\n"
	if got := w.Body.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if ct := w.Header().Get("Content-Type"); ct != "text/event-stream" {
		t.Errorf("Content-Type %q", ct)
	}
}

func TestEventsBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := httptest.NewRecorder()
		e := api.StartEvents(deadlines{ResponseWriter: w})
		time.Sleep(2*api.Heartbeat + time.Second)
		e.Close()
		if got := strings.Count(w.Body.String(), ": "); got != 2 {
			t.Errorf("%d heartbeats: %q", got, w.Body)
		}
	})
}

// TestEventsSlowReader is a client that stops reading: a send fails in bounded
// time, and all after it.
func TestEventsSlowReader(t *testing.T) {
	w := httptest.NewRecorder()
	e := api.StartEvents(deadlines{ResponseWriter: w, after: 2})
	first := e.Send("chunk", "1", "x")
	second := e.Send("chunk", "2", "y")
	third := e.Send("chunk", "3", "z")
	e.Close()
	if first != nil || !errors.Is(second, errSlow) || !errors.Is(third, errSlow) {
		t.Errorf("sends gave %v, %v, %v", first, second, third)
	}
	if strings.Contains(w.Body.String(), "z") {
		t.Error("an event was written after a lost one")
	}
}

var errSlow = errors.New("too slow")

// deadlines is a response that supports write deadlines, as a recorder does
// not, and of which writes fail after the first few.
type deadlines struct {
	http.ResponseWriter
	after int
}

func (d deadlines) SetWriteDeadline(at time.Time) error {
	if left := time.Until(at); left <= 0 || left > api.WriteTimeout {
		return errors.New("the deadline is no WriteTimeout away")
	}
	return nil
}

func (d deadlines) Write(p []byte) (int, error) {
	if d.after > 0 && strings.Contains(string(p), "id: 2") {
		return 0, errSlow
	}
	return d.ResponseWriter.Write(p)
}

func (d deadlines) FlushError() error { return nil }

// TestEventsOverHTTP sees each event arrive before the next is sent.
func TestEventsOverHTTP(t *testing.T) {
	next := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		e := api.StartEvents(w)
		defer e.Close()
		for i := range int64(3) {
			if err := e.Send("chunk", strconv.FormatInt(i, 10), i); err != nil {
				t.Error(err)
			}
			<-next
		}
	}))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	buf := make([]byte, 4096)
	for _, want := range []string{"data: 0\n", "data: 1\n", "data: 2\n"} {
		for !strings.Contains(got.String(), want) {
			n, err := conn.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			got.Write(buf[:n])
		}
		next <- struct{}{}
	}
}
