package sandkasten

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"
)

// daemon is a stand-in that gives answers written down before, in their order.
type daemon struct {
	mu       sync.Mutex
	requests []recorded // guarded by mu
	answers  []answer   // guarded by mu
}

type recorded struct {
	method string
	target string
	header http.Header
	body   string
}

// answer is what a request gets; a status of 0 breaks the connection behind body.
type answer struct {
	status int
	header map[string]string
	body   string
}

func (d *daemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	d.mu.Lock()
	d.requests = append(d.requests, recorded{r.Method, r.URL.RequestURI(), r.Header, string(body)})
	a := answer{status: http.StatusTeapot, body: "no answer is left"}
	if len(d.answers) > 0 {
		a, d.answers = d.answers[0], d.answers[1:]
	}
	d.mu.Unlock()
	for name, value := range a.header {
		w.Header().Set(name, value)
	}
	if a.status != 0 {
		w.WriteHeader(a.status)
	}
	if a.body != "" {
		io.WriteString(w, a.body)
		http.NewResponseController(w).Flush()
	}
	if a.status == 0 {
		panic(http.ErrAbortHandler)
	}
}

func (d *daemon) seen() []recorded {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.requests
}

// start returns a client of a stand-in, with pauses that are short.
func start(t *testing.T, answers ...answer) (*Client, *daemon) {
	t.Helper()
	d := &daemon{answers: answers}
	server := httptest.NewServer(d)
	t.Cleanup(server.Close)
	c, err := New(Options{URL: server.URL + "/", APIKey: "key"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	c.firstPause, c.retryTime = time.Millisecond, 0
	return c, d
}

const (
	aSession    = `{"id": "s1", "status": "running"}`
	unavailable = `{"code": "unavailable", "error": "not now"}`
)

var lost = answer{}

func TestWhatIsRepeated(t *testing.T) {
	busy := answer{status: 429, body: `{"code": "resource_exhausted", "error": "too many"}`}
	used := answer{status: 429, body: busy.body, header: map[string]string{"Retry-After": "3600"}}
	spent := answer{status: 429, body: `{"code": "resource_exhausted", "reason": "quota_exceeded", "error": "4 of 4 cores"}`, header: map[string]string{"Retry-After": "1"}}
	down := answer{status: 503, body: unavailable}
	broken := answer{status: 500, body: `{"code": "internal", "error": "our fault"}`}
	get := func(c *Client) error { _, err := c.Session("s1").Refresh(t.Context()); return err }
	create := func(c *Client) error { _, err := c.CreateSession(t.Context(), nil); return err }
	destroy := func(c *Client) error { return c.Session("s1").Destroy(t.Context()) }
	exec := func(c *Client) error { _, err := c.Session("s1").Exec(t.Context(), "true", nil); return err }
	write := func(c *Client) error {
		return c.Session("s1").Write(t.Context(), "a", strings.NewReader("text"), nil)
	}
	pour := func(c *Client) error { // cannot be sent again
		return c.Session("s1").Write(t.Context(), "a", bytes.NewBufferString("text"), nil)
	}
	tests := []struct {
		name  string
		call  func(*Client) error
		first answer
		sent  int
	}{
		{"get after a lost answer", get, lost, 2},
		{"get after 503", get, down, 2},
		{"get after 500", get, broken, 1},
		{"create after a lost answer", create, lost, 2},
		{"create after 503", create, down, 2},
		{"destroy after a lost answer", destroy, lost, 2},
		{"exec after a lost answer", exec, lost, 1},
		{"exec after 503", exec, down, 1},
		{"exec after 429", exec, busy, 2},
		{"exec after 429 for an hour", exec, used, 1},
		{"create over a quota", create, spent, 1},
		{"write after 429", write, busy, 2},
		{"write after a lost answer", write, lost, 1},
		{"write of a stream after 429", pour, busy, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, d := start(t, tt.first, answer{status: 200, body: aSession})
			err := tt.call(c)
			if repeated := tt.sent > 1; repeated != (err == nil) {
				t.Errorf("the error is %v", err)
			}
			seen := d.seen()
			if len(seen) != tt.sent {
				t.Fatalf("%d requests were sent", len(seen))
			}
			for _, r := range seen[1:] {
				if r.body != seen[0].body || r.header.Get("Idempotency-Key") != seen[0].header.Get("Idempotency-Key") {
					t.Errorf("another request was sent the second time: %v, %v", seen[0], r)
				}
			}
		})
	}
}

func TestEveryCreateHasItsOwnKey(t *testing.T) {
	ok := answer{status: 201, body: aSession}
	c, d := start(t, ok, ok, ok)
	for _, key := range []string{"", "", "mine"} {
		if _, err := c.CreateSession(t.Context(), &CreateOptions{IdempotencyKey: key}); err != nil {
			t.Fatal(err)
		}
	}
	var keys []string
	for _, r := range d.seen() {
		keys = append(keys, r.header.Get("Idempotency-Key"))
	}
	if keys[0] == "" || keys[0] == keys[1] || keys[2] != "mine" {
		t.Errorf("the keys are %q", keys)
	}
}

func TestRetriesHaveAnEnd(t *testing.T) {
	c, d := start(t, lost, lost, lost, lost)
	_, err := c.Info(t.Context())
	var lost *ConnectionError
	if !errors.As(err, &lost) || !lost.Sent || !strings.HasPrefix(err.Error(), "GET /v1/info: ") {
		t.Errorf("the error is %v", err)
	}
	if n := len(d.seen()); n != 1+defaultRetries {
		t.Errorf("%d requests were sent", n)
	}
}

func TestWithoutDaemon(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	c, err := New(Options{URL: server.URL, APIKey: "key", MaxRetries: -1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Session("s1").Exec(t.Context(), "true", nil)
	var lost *ConnectionError
	if !errors.As(err, &lost) || lost.Sent {
		t.Errorf("the error is %v", err)
	}
}

func TestAPIErrors(t *testing.T) {
	header := map[string]string{"X-Request-Id": "r1", "Retry-After": "7"}
	tests := []struct {
		name   string
		answer answer
		want   APIError
		is     []error
		isNot  error
	}{
		{
			"whole",
			answer{409, header, `{"code": "already_exists", "error": "taken", "field": "id"}`},
			APIError{409, "already_exists", "taken", "id", "", "r1", 7 * time.Second, nil},
			[]error{ErrAlreadyExists, ErrConflict},
			ErrNotFound,
		},
		{
			"conflict",
			answer{409, nil, `{"code": "conflict", "error": "ended", "request_id": "r2"}`},
			APIError{409, "conflict", "ended", "", "", "r2", 0, nil},
			[]error{ErrConflict},
			ErrAlreadyExists,
		},
		{
			"of a code that is new",
			answer{418, nil, `{"code": "teapot", "error": "short and stout"}`},
			APIError{418, "teapot", "short and stout", "", "", "", 0, nil},
			nil, ErrInternal,
		},
		{
			"of something else",
			answer{502, nil, `<html>`},
			APIError{502, "http_502", "HTTP status 502, with an answer that is not Sandkasten's", "", "", "", 0, nil},
			nil, ErrInternal,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := start(t, tt.answer)
			_, err := c.Session("s1").Exec(t.Context(), "true", nil)
			var got *APIError
			if !errors.As(err, &got) || *got != tt.want {
				t.Fatalf("the error is %#v", err)
			}
			for _, meaning := range tt.is {
				if !errors.Is(err, meaning) {
					t.Errorf("it is no %v", meaning)
				}
			}
			if errors.Is(err, tt.isNot) {
				t.Errorf("it is a %v", tt.isNot)
			}
		})
	}
}

func TestCancellation(t *testing.T) {
	arrived := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		close(arrived)
		<-r.Context().Done()
	}))
	defer server.Close()
	c, err := New(Options{URL: server.URL, APIKey: "key"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	reason := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-arrived
		cancel(reason)
	}()
	_, err = c.CreateSession(ctx, nil)
	if !errors.Is(err, reason) {
		t.Errorf("the error is %v", err)
	}
}

// behind calls then when an answer has been read.
type behind struct {
	http.RoundTripper

	then func()
}

func (b behind) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = closing{resp.Body, b.then}
	}
	return resp, err
}

type closing struct {
	io.ReadCloser

	then func()
}

func (c closing) Close() error {
	defer c.then()
	return c.ReadCloser.Close()
}

func TestCancellationOfAPause(t *testing.T) {
	c, d := start(t, answer{status: 503, header: map[string]string{"Retry-After": "20"}, body: unavailable})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c.http.Transport = behind{c.http.Transport, cancel}
	_, err := c.Info(ctx)
	if !errors.Is(err, context.Canceled) || !errors.Is(err, ErrUnavailable) || len(d.seen()) != 1 {
		t.Errorf("the error is %v, after %d requests", err, len(d.seen()))
	}
}

func TestAnAnswerThatIsNotOurs(t *testing.T) {
	c, _ := start(t, answer{status: 200, body: "<html>"})
	if _, err := c.Info(t.Context()); err == nil || !strings.Contains(err.Error(), "not Sandkasten's") {
		t.Errorf("the error is %v", err)
	}
}

func TestRequestsAreAuthorized(t *testing.T) {
	c, d := start(t, answer{status: 200, body: "{}"})
	if _, err := c.Session("../a b?").Exec(t.Context(), "true", nil); err != nil {
		t.Fatal(err)
	}
	r := d.seen()[0]
	if r.header.Get("Authorization") != "Bearer key" || !strings.HasPrefix(r.header.Get("User-Agent"), "sandkasten-go/") {
		t.Errorf("the header is %v", r.header)
	}
	if r.target != "/v1/sessions/%2E%2E%2Fa%20b%3F/exec" {
		t.Errorf("the target is %s", r.target)
	}
}

// TestRedirectsAreNotFollowed: a server in a sandbox would choose what is asked with
// the key, of the daemon's API, too.
func TestRedirectsAreNotFollowed(t *testing.T) {
	for name, given := range map[string]*http.Client{"its own client": nil, "the caller's client": {}} {
		t.Run(name, func(t *testing.T) {
			d := &daemon{}
			for range 2 {
				d.answers = append(d.answers, answer{status: http.StatusTemporaryRedirect, header: map[string]string{"Location": "/v1/users"}, body: "there"})
			}
			server := httptest.NewServer(d)
			defer server.Close()
			c, err := New(Options{URL: server.URL, APIKey: "key", HTTPClient: given})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/x", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := c.Session("s1").FetchPort(80, req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if body, err := io.ReadAll(resp.Body); resp.StatusCode != http.StatusTemporaryRedirect || string(body) != "there" || err != nil {
				t.Errorf("the answer is %d %q, %v", resp.StatusCode, body, err)
			}
			var refused *APIError
			if _, err := c.Info(t.Context()); !errors.As(err, &refused) || refused.Status != http.StatusTemporaryRedirect {
				t.Errorf("the error is %v", err)
			}
			if seen := d.seen(); len(seen) != 2 {
				t.Errorf("there were %d requests", len(seen))
			}
		})
	}
}

func TestWrapTransport(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"version":"`+r.Header.Get("Traceparent")+`"}`)
	}))
	defer server.Close()
	client, err := New(Options{URL: server.URL, APIKey: "k", WrapTransport: func(own http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			r = r.Clone(r.Context())
			r.Header.Set("Traceparent", "of-the-caller")
			return own.RoundTrip(r)
		})
	}})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := client.Info(t.Context()); err != nil || info.Version != "of-the-caller" {
		t.Errorf("%+v, %v", info, err)
	}
}

// roundTrip is a function as a transport.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestOptionsAndEnvironment(t *testing.T) {
	t.Setenv("SANDKASTEN_URL", "http://env:1/prefix/")
	t.Setenv("SANDKASTEN_API_KEY", "env-key")
	c, err := New(Options{})
	if err != nil || c.base != "http://env:1/prefix" || c.key != "env-key" || c.maxRetries != defaultRetries {
		t.Errorf("of the environment: %+v, %v", c, err)
	}
	c, err = New(Options{URL: "https://given", APIKey: "given", MaxRetries: -1})
	if err != nil || c.base != "https://given" || c.key != "given" || c.maxRetries != 0 {
		t.Errorf("of the options: %+v, %v", c, err)
	}
	t.Setenv("SANDKASTEN_URL", "")
	t.Setenv("SANDKASTEN_API_KEY", "")
	if c, err = New(Options{APIKey: "key"}); err != nil || c.base != DefaultURL {
		t.Errorf("of nothing: %+v, %v", c, err)
	}
	for _, wrong := range []Options{{}, {APIKey: "a\nb"}, {URL: "here", APIKey: "k"}, {URL: "ftp://here", APIKey: "k"}} {
		if _, err := New(wrong); err == nil {
			t.Errorf("%+v is taken", wrong)
		}
	}
}

func TestBodiesOfRequests(t *testing.T) {
	c, d := start(t, answer{status: 201, body: aSession}, answer{status: 200, body: "{}"}, answer{status: 201, body: `{"sessions": []}`},
		answer{status: 201, body: "{}"}, answer{status: 201, body: "{}"})
	no := false
	_, err := c.CreateSession(t.Context(), &CreateOptions{
		TTL: 1500 * time.Millisecond, AutoResume: &no, MemoryMB: 256, Image: "base",
	})
	if err != nil {
		t.Fatal(err)
	}
	s := c.Session("s1")
	if _, err := s.Exec(t.Context(), "true", &ExecOptions{Timeout: time.Second, ExecID: "x"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Fork(t.Context(), 0, nil); err != nil {
		t.Fatal(err)
	}
	for _, options := range []*SnapshotOptions{nil, {Scope: "sandbox", Name: "n"}} {
		if _, err := s.Snapshot(t.Context(), options); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		`{"auto_resume":false,"image":"base","memory_mb":256,"ttl_seconds":2}`,
		`{"cmd":"true","exec_id":"x","timeout_ms":1000}`,
		`{"count":0}`,
		`{"fallback":"workspace","scope":"sandbox"}`,
		`{"name":"n","scope":"sandbox"}`,
	}
	for i, r := range d.seen() {
		var fields map[string]any
		if err := json.Unmarshal([]byte(r.body), &fields); err != nil {
			t.Fatal(err)
		}
		if got, _ := json.Marshal(fields); string(got) != want[i] {
			t.Errorf("the body is %s", got)
		}
	}
}

func TestWriteNeedsTheSize(t *testing.T) {
	c, d := start(t, answer{status: 200, body: "{}"}, answer{status: 200, body: "{}"})
	s := c.Session("s1")
	err := s.Write(t.Context(), "a", iotest.OneByteReader(strings.NewReader("text")), nil)
	if err == nil || !strings.Contains(err.Error(), "set Size") {
		t.Errorf("the error is %v", err)
	}
	err = s.Write(t.Context(), "a", iotest.OneByteReader(strings.NewReader("text")), &WriteOptions{Size: 4, Mode: 0o755})
	if err != nil {
		t.Fatal(err)
	}
	rest := strings.NewReader("some text")
	rest.Seek(5, io.SeekStart)
	if err := s.Write(t.Context(), "b", rest, nil); err != nil {
		t.Fatal(err)
	}
	seen := d.seen()
	if seen[0].target != "/v1/sessions/s1/fs/raw?mode=0755&path=a" || seen[0].body != "text" || seen[1].body != "text" {
		t.Errorf("the requests are %v", seen)
	}
}
