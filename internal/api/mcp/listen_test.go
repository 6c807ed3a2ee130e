package mcp_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/mcp"
	"github.com/sandkasten/sandkasten/internal/auth"
)

// work is a daemon in which each key has a session called work, and watches what each
// does there.
type work map[string]chan io.Writer

func (d work) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r}
	if r.URL.Path == "/v1/sessions/work" {
		answer.Body = io.NopCloser(strings.NewReader(`{"id":"s","name":"work","labels":{"sandkasten.scope":"agent:a"}}`))
		return answer, nil
	}
	in, out := io.Pipe()
	go func() {
		<-r.Context().Done()
		out.CloseWithError(r.Context().Err())
	}()
	d[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")] <- out
	answer.Header.Set("Content-Type", "text/event-stream")
	answer.Body = in
	return answer, nil
}

var transport = &http.Transport{}

// withKey sends requests with a key.
type withKey string

func (k withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(k))
	r.Header.Set("Sandkasten-Scope", "agent:a")
	return transport.RoundTrip(r)
}

// listener follows a file of the session work of a key.
type listener struct {
	*sdk.ClientSession
	watch io.Writer
	told  chan struct{}
	times atomic.Int32
}

func listen(t *testing.T, url, key string, daemon work) *listener {
	t.Helper()
	l := &listener{told: make(chan struct{}, 100)}
	var err error
	l.ClientSession, err = sdk.NewClient(&sdk.Implementation{Name: "client", Version: "1"}, &sdk.ClientOptions{
		ResourceUpdatedHandler: func(context.Context, *sdk.ResourceUpdatedNotificationRequest) {
			l.times.Add(1)
			l.told <- struct{}{}
		},
	}).Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: url + "/mcp", HTTPClient: &http.Client{Transport: withKey(key)}, DisableStandaloneSSE: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	subscribed := make(chan error, 1)
	go func() { subscribed <- l.Subscribe(t.Context(), &sdk.SubscribeParams{URI: "sandbox://work/a"}) }()
	l.watch = <-daemon[key]
	l.send(t, "ready", "{}")
	if err := <-subscribed; err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *listener) send(t *testing.T, name, data string) {
	t.Helper()
	if _, err := io.WriteString(l.watch, "event: "+name+"\ndata: "+data+"\n\n"); err != nil {
		t.Fatal(err)
	}
}

// changes has the file change, and waits until its client is told.
func (l *listener) changes(t *testing.T) {
	t.Helper()
	l.send(t, "write", `{"path":"a"}`)
	select {
	case <-l.told:
	case <-time.After(30 * time.Second):
		t.Fatal("nothing was told")
	}
}

// A client is told of its owner's file, and not when another owner's of that address
// changes.
func TestFilesOfOneAddressAreTheirOwners(t *testing.T) {
	t.Parallel()
	const alices, bobs = "the-key-of-alice", "the-key-of-bob-here"
	keys, err := auth.NewKeys(auth.Key{ID: "a", Owner: "alice", Hash: auth.HashKey(alices)}, auth.Key{ID: "b", Owner: "bob", Hash: auth.HashKey(bobs)})
	if err != nil {
		t.Fatal(err)
	}
	daemon := work{alices: make(chan io.Writer, 1), bobs: make(chan io.Writer, 1)}
	server := httptest.NewServer(api.Handler(api.Options{Authenticator: keys}, mcp.New(mcp.Options{Transport: daemon})))
	defer server.Close()
	alice, bob := listen(t, server.URL, alices, daemon), listen(t, server.URL, bobs, daemon)
	for range 5 {
		alice.changes(t)
	}
	bob.changes(t)
	if a, b := alice.times.Load(), bob.times.Load(); a != 5 || b != 1 {
		t.Errorf("alice is told %d times of five changes, bob %d times of one", a, b)
	}
	alice.Close()
	bob.Close()
}
