package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// start returns a proxy for a daemon that counts its requests and answers with
// text as a stream of events.
func start(t *testing.T, text string) (proxy *flaky, requests *int) {
	t.Helper()
	requests = new(int)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*requests++
		if r.URL.Path == "/stream" {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		fmt.Fprint(w, text)
	}))
	t.Cleanup(target.Close)
	proxy, err := startFlaky(target.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.close)
	return proxy, requests
}

// get returns what came of the answer, and how it ended.
func get(t *testing.T, url, key string) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

func TestStreamsBreakInsideTheirThirdEvent(t *testing.T) {
	const two = "id: 1\ndata: a\n\nid: 2\ndata: b\n\n"
	tests := []struct {
		name, path, text, want string
		broken                 bool
	}{
		{"a third event", "/stream", two + "id: 3\ndata: c\n\n", two + "id: 3\ndata", true},
		{"more than fits a buffer", "/stream", two + fmt.Sprintf("data: %0100000d\n\n", 3), two + "data: 0000", true},
		{"two events", "/stream", two, two, false},
		{"no stream", "/other", two + two, two + two, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			proxy, _ := start(t, tt.text)
			got, err := get(t, proxy.url+tt.path, "")
			if got != tt.want || (err != nil) != tt.broken {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func TestTheFirstAnswerWithAKeyIsLost(t *testing.T) {
	proxy, requests := start(t, "made")
	for i, key := range []string{"k1", "k1", "k2", "k2", ""} {
		got, err := get(t, proxy.url+"/sessions", key)
		if lost := i == 0 || i == 2; lost != errors.Is(err, io.EOF) || !lost && got != "made" {
			t.Errorf("request %d with key %q: got %q, %v", i, key, got, err)
		}
	}
	if *requests != 5 {
		t.Errorf("the daemon got %d requests, want all 5", *requests)
	}
}

// TestAnswersThatComeEarlyAreWhole: a daemon answers as soon as it has the last byte
// of a request, which may be before the proxy has seen that it was the last.
func TestAnswersThatComeEarlyAreWhole(t *testing.T) {
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		for range 20 {
			io.WriteString(w, "part ")
			http.NewResponseController(w).Flush()
		}
	}))
	t.Cleanup(target.Close)
	proxy, err := startFlaky(target.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.close)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for range 3000 {
		resp, err := client.Post(proxy.url, "text/plain", strings.NewReader("the request"))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || len(text) != 20*len("part ") {
			t.Fatalf("%q, %v", text, err)
		}
	}
}
