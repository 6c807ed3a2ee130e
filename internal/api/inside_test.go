package api_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/auth"
)

// logged is a log that may be read while it is written.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestInsideServesTheDaemonsOwnRequests(t *testing.T) {
	t.Parallel()
	inside := api.NewInside()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Host+r.URL.Path) })} //nolint:gosec // only this test can reach it
	served := make(chan error, 1)
	go func() { served <- server.Serve(inside) }()
	client := &http.Client{Transport: inside.Transport()}
	get := func() (string, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/v1/info", nil)
		if err != nil {
			return "", err
		}
		resp, err := client.Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return string(text), err
	}
	if text, err := get(); err != nil || text != "localhost/v1/info" {
		t.Errorf("got %q, %v", text, err)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	if text, err := get(); err == nil {
		t.Errorf("got %q of a server that is closed", text)
	}
}

// readers has the keys of the owner reader only read.
type readers struct{ auth.Authenticator }

func (k readers) Authenticate(ctx context.Context, text string) (auth.Principal, error) {
	p, err := k.Authenticator.Authenticate(ctx, text)
	p.ReadOnly = p.Owner == "reader"
	return p, err
}

// What is asked inside for a client's request is a part of it: it takes no second place or
// rate, acts for the same principal, and is as strict about what that may do.
func TestPartsOfARequest(t *testing.T) {
	t.Parallel()
	const aKey, reader = "the-key-of-somebody", "the-key-of-a-reader"
	keys, err := auth.NewKeys(
		auth.Key{ID: "k", Owner: "owner", Hash: auth.HashKey(aKey)}, auth.Key{ID: "r", Owner: "reader", Hash: auth.HashKey(reader)},
	)
	if err != nil {
		t.Fatal(err)
	}
	inside := api.NewInside()
	client := &http.Client{Transport: inside.Transport()}
	ask := func(ctx context.Context, path string) string {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+path, nil)
		if err != nil {
			return err.Error()
		}
		resp, err := client.Do(req)
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return fmt.Sprint(resp.StatusCode, " ", string(text), err)
	}
	var afterwards context.Context
	surface := api.Surface{Name: "s", Routes: []api.Route{
		{Pattern: "POST /outer", Scope: api.Key, Class: api.Long, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			afterwards = context.WithoutCancel(r.Context())
			io.WriteString(w, ask(r.Context(), "/inner")+"; "+ask(r.Context(), "/admins"))
		})},
		{Pattern: "GET /outer", Scope: api.Key, Class: api.Long, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, ask(r.Context(), "/inner"))
		})},
		{Pattern: "POST /inner", Scope: api.Key, Class: api.Long, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			req := api.From(r.Context())
			fmt.Fprint(w, req.Principal.Owner, " ", req.ID, " ", req.Remote)
		})},
		{Pattern: "POST /admins", Scope: api.Admin, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "secret") })},
	}}
	var log logged
	handler := api.Handler(api.Options{
		Inside: inside, Authenticator: readers{keys}, Log: slog.New(slog.NewTextHandler(&log, nil)),
		Quotas: auth.FixedQuotas{General: auth.Quota{Waiting: 1, RequestsPerSecond: 0.001, Burst: 1}},
	}, surface)
	server := httptest.NewServer(handler)
	served := make(chan error, 1)
	go func() { served <- server.Config.Serve(inside) }()
	t.Cleanup(func() {
		if err := inside.Close(); err != nil {
			t.Error(err)
		}
		<-served
		server.Close()
	})
	from := func(method, path, key string, headers ...string) string {
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("X-Request-Id", "one-id")
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	got := from("POST", "/outer", aKey)
	if !strings.HasPrefix(got, "200 owner one-id 127.0.0.1:") || !strings.Contains(got, "; 403 ") {
		t.Errorf("inside: %s", got)
	}
	if got := from("GET", "/outer", reader); !strings.HasPrefix(got, "403 ") {
		t.Errorf("a key that only reads: %s", got)
	}
	if text := log.String(); strings.Contains(text, "path=/inner") {
		t.Errorf("parts have lines of their own: %s", text)
	}
	if got := ask(afterwards, "/inner"); !strings.HasPrefix(got, "401 ") {
		t.Errorf("for a request that has been answered: %s", got)
	}
	if got := ask(t.Context(), "/inner"); !strings.HasPrefix(got, "401 ") {
		t.Errorf("for nobody's request: %s", got)
	}
	if got := from("POST", "/inner", "wrong", "Sandkasten-Inside", "anything"); !strings.Contains(got, "unauthenticated") {
		t.Errorf("from outside: %s", got)
	}
}
