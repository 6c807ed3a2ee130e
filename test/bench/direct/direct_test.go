package direct_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sandkasten/sandkasten/test/bench/direct"
)

func get(client *http.Client, req *http.Request) (string, error) {
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(resp.Body)
	return string(body), errors.Join(err, resp.Body.Close())
}

func TestDirectKeepsItsConnection(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if r.URL.Path == "/broken" {
			w.Header().Set("Content-Length", "10")
		}
		fmt.Fprintf(w, "%s %s", r.Method, body)
	}))
	defer server.Close()
	var dials atomic.Int64
	client := direct.NewClient(func(ctx context.Context) (net.Conn, error) {
		dials.Add(1)
		return (&net.Dialer{}).DialContext(ctx, "tcp", server.Listener.Addr().String())
	})
	post := func(path, body string) (string, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		return get(client, req)
	}
	for _, body := range []string{"one", strings.Repeat("two", 100_000), ""} {
		if got, err := post("/", body); err != nil || got != "POST "+body {
			t.Errorf("%.20q: %.20q, %v", body, got, err)
		}
	}
	if n := dials.Load(); n != 1 {
		t.Errorf("%d connections for one request after another", n)
	}
	if got, err := post("/broken", "x"); err == nil {
		t.Errorf("an answer cut short is %q", got)
	}
	if got, err := post("/", "again"); err != nil || got != "POST again" || dials.Load() != 2 {
		t.Errorf("after a broken connection: %q, %v, %d connections", got, err, dials.Load())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := get(client, req); err == nil {
		t.Error("a request that was given up is answered")
	}
}
