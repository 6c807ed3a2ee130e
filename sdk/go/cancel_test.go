package sandkasten

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// runs are the calls that run a command.
var runs = map[string]func(context.Context, *Session) error{
	"exec": func(ctx context.Context, s *Session) error {
		_, err := s.Exec(ctx, "make", nil)
		return err
	},
	"stream": func(ctx context.Context, s *Session) error {
		_, err := s.ExecStream("make", nil).Copy(ctx, io.Discard, io.Discard)
		return err
	},
	"process": func(ctx context.Context, s *Session) error {
		_, err := s.RunProcess(ctx, []string{"make"}, nil)
		return err
	},
	"stream of a process": func(ctx context.Context, s *Session) error {
		_, err := s.StreamProcess([]string{"make"}, nil).Copy(ctx, io.Discard, io.Discard)
		return err
	},
}

// deaf is a daemon that never answers to a command, and to whose ends it gives the
// answers in their order.
type deaf struct {
	arrived chan string // the id of the command

	mu      sync.Mutex
	answers []answer // guarded by mu
	ends    []string // guarded by mu; the paths
}

func (d *deaf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/cancel") {
		var body struct {
			ExecID string `json:"exec_id"`
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			panic(err)
		}
		d.arrived <- body.ExecID
		<-r.Context().Done()
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ends = append(d.ends, r.URL.Path)
	a := d.answers[0]
	d.answers = d.answers[1:]
	w.WriteHeader(a.status)
	io.WriteString(w, a.body)
}

// The daemon may hear of the end of a command before it hears of the command.
func TestACanceledCallEndsItsCommand(t *testing.T) {
	unknown := answer{status: 404, body: `{"error":"no such exec","code":"not_found","reason":"no_such_exec"}`}
	over := answer{status: 409, body: `{"error":"the session is destroyed","code":"conflict"}`}
	for name, run := range runs {
		for _, answers := range [][]answer{{{status: 200, body: `{"ok":true}`}}, {unknown, unknown, {status: 200, body: `{"ok":true}`}}, {over}} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				d := &deaf{arrived: make(chan string, 1), answers: answers}
				server := httptest.NewServer(d)
				defer server.Close()
				c, err := New(Options{URL: server.URL, APIKey: "key"})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				ctx, cancel := context.WithCancel(t.Context())
				id := make(chan string, 1)
				go func() {
					id <- <-d.arrived
					cancel()
				}()
				if err := run(ctx, c.Session("s1")); !errors.Is(err, context.Canceled) {
					t.Errorf("the error is %v", err)
				}
				want := slices.Repeat([]string{"/v1/sessions/s1/execs/" + <-id + "/cancel"}, len(answers))
				if !slices.Equal(d.ends, want) {
					t.Errorf("the ends are %q, want %q", d.ends, want)
				}
			})
		}
	}
}

func TestACallThatWasCanceledBeforeSendsNothing(t *testing.T) {
	c, d := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, run := range runs {
		began := time.Now()
		if err := run(ctx, c.Session("s1")); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("%s takes %s", name, took)
		}
	}
	if sent := d.seen(); len(sent) > 0 {
		t.Errorf("%d requests", len(sent))
	}
}

// A command whose connection breaks goes on.
func TestALostCommandIsNotEnded(t *testing.T) {
	for name, run := range runs {
		c, d := start(t, answer{})
		var lost *ConnectionError
		if !errors.As(run(t.Context(), c.Session("s1")), &lost) {
			t.Errorf("%s: no error of the connection", name)
		}
		if sent := d.seen(); len(sent) != 1 {
			t.Errorf("%s: %d requests", name, len(sent))
		}
	}
}
