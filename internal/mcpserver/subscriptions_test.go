package mcpserver_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandkasten/sandkasten/agents/tools"
	"github.com/sandkasten/sandkasten/internal/mcpserver"
	"github.com/sandkasten/sandkasten/sdk/go"
)

const file = "sandbox://s/a"

// A watch that was asked for, and what it sends.
type watch struct {
	ctx context.Context
	out *io.PipeWriter
}

func (w *watch) send(t *testing.T, name, data string) {
	t.Helper()
	if _, err := io.WriteString(w.out, "event: "+name+"\ndata: "+data+"\n\n"); err != nil {
		t.Error(err)
	}
}

// watched is a daemon with a session s of workflow:run-1. A watch that its client
// leaves ends a second later. A refusal answers the next watch instead.
type watched struct {
	watches  chan *watch
	refusals chan string
}

func (d watched) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := func(status int, kind string, body io.ReadCloser) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}}, Body: body, Request: r}, nil
	}
	if r.URL.Path == "/v1/sessions/s" {
		return answer(http.StatusOK, "application/json", io.NopCloser(strings.NewReader(`{"id":"s","labels":{"sandkasten.scope":"workflow:run-1"}}`)))
	}
	select {
	case text := <-d.refusals:
		return answer(http.StatusConflict, "application/json", io.NopCloser(strings.NewReader(text)))
	default:
	}
	in, out := io.Pipe()
	go func() {
		<-r.Context().Done()
		time.Sleep(time.Second)
		out.CloseWithError(r.Context().Err())
	}()
	d.watches <- &watch{r.Context(), out}
	return answer(http.StatusOK, "text/event-stream", in)
}

// followed is a client of a server over a daemon, which is told of what it follows.
type followed struct {
	*mcp.ClientSession
	watched
	t     *testing.T
	times int // that it was told
}

func newFollowed(t *testing.T) *followed {
	t.Helper()
	f := &followed{t: t, watched: watched{make(chan *watch, 10), make(chan string, 10)}}
	client, err := sandkasten.New(sandkasten.Options{URL: "http://daemon", APIKey: "key", MaxRetries: -1, RetryTime: -1, HTTPClient: &http.Client{Transport: f.watched}})
	if err != nil {
		t.Fatal(err)
	}
	sets := func(mcpserver.Caller) (*tools.Set, error) {
		return tools.New(tools.Options{Client: client, Scope: tools.Scope{Namespace: "workflow", ID: "run-1"}})
	}
	t.Cleanup(func() { time.Sleep(time.Minute) }) // all watches end with the connection
	f.ClientSession = connectWith(t, sets, &mcp.ClientOptions{
		ResourceUpdatedHandler: func(context.Context, *mcp.ResourceUpdatedNotificationRequest) { f.times++ },
	}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"}) // whose requests have answers
	return f
}

// subscribe follows the file, and returns the watch for it.
func (f *followed) subscribe() *watch {
	f.t.Helper()
	subscribed := make(chan error, 1)
	go func() { subscribed <- f.Subscribe(f.t.Context(), &mcp.SubscribeParams{URI: file}) }()
	w := <-f.watches
	w.send(f.t, "ready", "{}")
	if err := <-subscribed; err != nil {
		f.t.Fatal(err)
	}
	return w
}

// want fails unless the client was told so many times in all.
func (f *followed) want(what string, times int) {
	f.t.Helper()
	synctest.Wait()
	if f.times != times {
		f.t.Errorf("%s the client was told %d times, want %d", what, f.times, times)
	}
}

// A file is followed over a stop and a start of its session, until that is no more.
func TestAFollowedFileOutlivesAStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFollowed(t)
		w := f.subscribe()
		f.want("at first", 0)
		w.send(t, "write", `{"path":"a"}`)
		w.send(t, "write", `{"path":"b"}`)
		f.want("after a change", 1)
		const stopped = `{"error":"session s is stopped","code":"conflict"}`
		for range 6 {
			f.refusals <- stopped
		}
		w.send(t, "error", stopped)
		f.want("after a stop", 2)
		time.Sleep(62 * time.Second) // 1 + 2 + 4 + 8 + 16 + 30
		f.want("while it is stopped", 2)
		if n := len(f.refusals); n != 0 {
			t.Errorf("%d tries are still to come", n)
		}
		w = <-f.watches
		w.send(t, "ready", "{}")
		f.want("after a start", 3)
		w.send(t, "write", `{"path":"a"}`)
		f.want("after a change since", 4)

		f.refusals <- `{"error":"no such session","code":"not_found","reason":"no_such_session"}`
		w.send(t, "error", stopped)
		time.Sleep(time.Hour)
		f.want("at the end", 6)
		if len(f.watches) > 0 {
			t.Error("it is watched after its end")
		}
		f.subscribe() // which is no second one
	})
}

// A subscription that ends slowly does not end the next one of the same file.
func TestASubscriptionEndsItselfAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFollowed(t)
		first := f.subscribe()
		if err := f.Unsubscribe(t.Context(), &mcp.UnsubscribeParams{URI: file}); err != nil {
			t.Fatal(err)
		}
		second := f.subscribe()
		time.Sleep(5 * time.Second)
		if first.ctx.Err() == nil || second.ctx.Err() != nil {
			t.Fatalf("the first watch: %v, the second: %v", first.ctx.Err(), second.ctx.Err())
		}
		second.send(t, "write", `{"path":"a"}`)
		f.want("after a change", 1)
	})
}
