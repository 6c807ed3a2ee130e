package api_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/auth"
)

// revocable is keys whose one key can end.
type revocable struct {
	keys

	ended chan struct{}
}

func (k revocable) Watch(ctx context.Context, _ auth.Principal) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	select {
	case <-k.ended:
		cancel(auth.ErrEnded)
	default:
	}
	go func() {
		select {
		case <-k.ended:
			cancel(auth.ErrEnded)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// tokens are access tokens that end soon.
type tokens struct{}

const soon = 200 * time.Millisecond

func (tokens) IsToken(credential string) bool { return strings.Count(credential, ".") == 2 }

func (tokens) Token(context.Context, string) (auth.Principal, time.Time, error) {
	return auth.Principal{Owner: "alice", ID: "token"}, time.Now().Add(soon), nil
}

// watchedServer serves what waits for its client or for the end of its context.
func watchedServer(t *testing.T) (s *httptest.Server, end func(), begun chan struct{}, ended chan error) {
	t.Helper()
	k := revocable{ended: make(chan struct{})}
	begun, ended = make(chan struct{}, 1), make(chan error, 1)
	h := api.Handler(api.Options{Authenticator: k, Tokens: tokens{}}, api.Surface{Name: "test", Routes: []api.Route{
		{Pattern: "GET /stream", Scope: api.Key, Class: api.Long, Tokens: "/described", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.WriteString(w, "first\n"); err != nil {
				t.Error(err)
			}
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			begun <- struct{}{}
			<-r.Context().Done()
			ended <- context.Cause(r.Context())
		})},
		{Pattern: "POST /upload", Scope: api.Key, Class: api.Transfer, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			begun <- struct{}{}
			_, err := io.Copy(io.Discard, r.Body)
			ended <- err
			api.WriteError(w, r, err)
		})},
		{Pattern: "GET /wait", Scope: api.Key, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			begun <- struct{}{}
			<-r.Context().Done()
			ended <- r.Context().Err()
			api.WriteError(w, r, r.Context().Err())
		})},
	}})
	s = httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s, sync.OnceFunc(func() { close(k.ended) }), begun, ended
}

// send sends a request with the good key.
func send(t *testing.T, s *httptest.Server, method, path string, body io.Reader) (*http.Response, error) {
	t.Helper()
	return sendAs(t, s, goodKey, method, path, body)
}

func sendAs(t *testing.T, s *httptest.Server, credential, method, path string, body io.Reader) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+credential)
	return s.Client().Do(r)
}

// wantEnd returns what a request ended with, within a second.
func wantEnd(t *testing.T, ended chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(10 * time.Second):
		t.Fatal("the request goes on after its key")
		return nil
	}
}

func TestStreamEndsWithItsKey(t *testing.T) {
	s, end, begun, ended := watchedServer(t)
	resp, err := send(t, s, "GET", "/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body := bufio.NewReader(resp.Body)
	if line, err := body.ReadString('\n'); err != nil || line != "first\n" {
		t.Fatal(line, err)
	}
	<-begun
	end()
	if cause := wantEnd(t, ended); !errors.Is(cause, auth.ErrEnded) {
		t.Errorf("it ends because of %v", cause)
	}
	if rest, err := io.ReadAll(body); err != nil || len(rest) > 0 {
		t.Errorf("after the end came %q, %v", rest, err)
	}
	again, err := send(t, s, "GET", "/stream", nil)
	if err != nil || again.StatusCode != http.StatusUnauthorized {
		t.Fatalf("begun after the end: %+v, %v", again, err)
	}
	again.Body.Close()
}

func TestStreamEndsWithItsAccessToken(t *testing.T) {
	s, _, begun, ended := watchedServer(t)
	resp, err := sendAs(t, s, "an.access.token", "GET", "/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	<-begun
	if cause := wantEnd(t, ended); !errors.Is(cause, auth.ErrEnded) {
		t.Errorf("it ends because of %v", cause)
	}
}

func TestUploadEndsWithItsKey(t *testing.T) {
	s, end, begun, ended := watchedServer(t)
	content, never := io.Pipe()
	defer never.Close()
	answered := make(chan int, 1)
	go func() {
		resp, err := send(t, s, "POST", "/upload", content)
		if err != nil {
			answered <- 0 // the connection is gone, which is as good
			return
		}
		resp.Body.Close()
		answered <- resp.StatusCode
	}()
	if _, err := io.WriteString(never, "begin"); err != nil {
		t.Fatal(err)
	}
	<-begun
	end()
	if err := wantEnd(t, ended); err == nil {
		t.Error("the body came to its end")
	}
	never.Close()
	if status := <-answered; status != http.StatusUnauthorized && status != 0 {
		t.Errorf("answered with %d", status)
	}
}

func TestWaitIsAnsweredWhenItsKeyEnds(t *testing.T) {
	s, end, begun, ended := watchedServer(t)
	go func() {
		<-begun
		end()
	}()
	resp, err := send(t, s, "GET", "/wait", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusUnauthorized || !strings.Contains(string(body), `"unauthenticated"`) {
		t.Errorf("%d %s, %v", resp.StatusCode, body, err)
	}
	if err := wantEnd(t, ended); err == nil {
		t.Error("no error")
	}
}
