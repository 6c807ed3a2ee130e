package attack

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/test/blackbox"
)

// caller sends requests to a daemon as they are, with an owner's key. The SDK
// would keep an attacker from most of what is tried here.
type caller struct {
	d    *blackbox.Daemon
	key  string
	http *http.Client
	made func(id string) // notes a session; nil where nobody asks
}

// as is a caller with a key; "" sends none.
func as(t testing.TB, d *blackbox.Daemon, key string) *caller {
	t.Helper()
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return &caller{d: d, key: key, http: &http.Client{
		Transport:     transport,
		Timeout:       2 * time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// reply is a response whose body was read to its end, or to where it broke off.
type reply struct {
	status int
	header http.Header
	body   string
	broken error
	took   time.Duration
}

type edit func(*http.Request)

func header(name, value string) edit {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func toHost(name string) edit { return func(r *http.Request) { r.Host = name } }

// without is a request without a key.
func without(r *http.Request) { r.Header.Del("Authorization") }

// maxAnswer is the most that is read of one reply.
const maxAnswer = 256 << 20

// try sends a request. The error is that of a connection without a reply.
func (c *caller) try(t testing.TB, method, path string, body any, edits ...edit) (reply, error) {
	t.Helper()
	var in io.Reader
	switch body := body.(type) {
	case nil:
	case string:
		in = strings.NewReader(body)
	case []byte:
		in = bytes.NewReader(body)
	case io.Reader:
		in = body
	default:
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		in = bytes.NewReader(text)
	}
	// It may be part of a test's clean-up; the client has a timeout.
	r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), method, c.d.URL+path, in)
	if err != nil {
		t.Fatalf("%s %.100q: %v", method, path, err)
	}
	if c.key != "" {
		r.Header.Set("Authorization", "Bearer "+c.key)
	}
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, edit := range edits {
		edit(r)
	}
	begin := time.Now()
	response, err := c.http.Do(r)
	if err != nil {
		return reply{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	return reply{response.StatusCode, response.Header, string(text), err, time.Since(begin)}, nil
}

// do is try for requests that are answered whatever they ask for.
func (c *caller) do(t testing.TB, method, path string, body any, edits ...edit) reply {
	t.Helper()
	a, err := c.try(t, method, path, body, edits...)
	if err != nil {
		t.Fatalf("%s %.100q: %v", method, path, err)
	}
	return a
}

// into decodes the body of a reply that must be a success.
func (a reply) into(t testing.TB, v any) {
	t.Helper()
	if a.status/100 != 2 || a.broken != nil {
		t.Fatalf("status %d, %v: %.500s", a.status, a.broken, a.body)
	}
	if err := json.Unmarshal([]byte(a.body), v); err != nil {
		t.Fatalf("%v in %.500s", err, a.body)
	}
}

// sane fails the test for a reply that no request may get: one of the
// daemon's own faults, or one that tells of the host.
func (a reply) sane(t testing.TB, what string, secrets ...string) {
	t.Helper()
	if a.status >= 500 && a.status != http.StatusNotImplemented && a.status != http.StatusInsufficientStorage {
		t.Errorf("%.120q: status %d: %.300s", what, a.status, a.body)
	}
	a.hides(t, what, secrets...)
}

// hides fails the test if the answer has one of the secrets.
func (a reply) hides(t testing.TB, what string, secrets ...string) {
	t.Helper()
	for _, secret := range secrets {
		if strings.Contains(a.body, secret) {
			t.Errorf("%.120q tells %q", what, secret)
		}
	}
}

// refused fails the test unless the reply has one of the statuses. What they
// are for, the case says.
func (a reply) refused(t testing.TB, what string, statuses ...int) {
	t.Helper()
	for _, status := range statuses {
		if a.status == status {
			return
		}
	}
	t.Errorf("%.160q: status %d, want one of %v: %.300s", what, a.status, statuses, a.body)
}

// target is a session of a caller.
type target struct {
	*caller
	id string
}

// session makes a session, which ends with the test. request may be nil.
func (c *caller) session(t testing.TB, request map[string]any) *target {
	t.Helper()
	if request == nil {
		request = map[string]any{}
	}
	var made struct{ ID string }
	c.do(t, "POST", "/v1/sessions", request).into(t, &made)
	b := &target{c, made.ID}
	if c.made != nil {
		c.made(b.id)
	}
	t.Cleanup(func() { b.end(t) })
	return b
}

// end destroys the session.
func (b *target) end(t testing.TB) {
	t.Helper()
	b.forget(t, b.at(""))
}

// forget removes something, which may have gone.
func (c *caller) forget(t testing.TB, path string) {
	t.Helper()
	c.do(t, "DELETE", path, nil).refused(t, "remove "+path, 200, 204, 404)
}

// at is a path below the session's.
func (b *target) at(rest string) string { return "/v1/sessions/" + b.id + rest }

// file is the path of a call to a file, with the file in the query.
func (b *target) file(call, path string) string {
	return b.at("/fs/" + call + "?path=" + url.QueryEscape(path))
}

// ran is the end of a command.
type ran struct {
	ExitCode int    `json:"exit_code"`
	Output   string `json:"output"`
	Cause    string `json:"cause"`
	ExecID   string `json:"exec_id"`
	Timed    bool   `json:"timed_out"`
}

// run runs a command in the session's shell.
func (b *target) run(t testing.TB, cmd string) (r ran) {
	t.Helper()
	b.do(t, "POST", b.at("/exec"), map[string]any{"cmd": cmd, "timeout_ms": 60000}).into(t, &r)
	return r
}

// sh is what a command prints that must work.
func (b *target) sh(t testing.TB, cmd string) string {
	t.Helper()
	r := b.run(t, cmd)
	if r.ExitCode != 0 {
		t.Fatalf("%.200q: exit %d, %s: %.2000s", cmd, r.ExitCode, r.Cause, r.Output)
	}
	return r.Output
}

// python runs a program in the session.
func (b *target) python(t testing.TB, program string) string {
	t.Helper()
	b.put(t, "/workspace/.attack.py", program)
	return b.sh(t, "python3 /workspace/.attack.py; r=$?; rm -f /workspace/.attack.py; (exit $r)")
}

// put writes a file by the API.
func (b *target) put(t testing.TB, path, text string) {
	t.Helper()
	if a := b.do(t, "PUT", b.file("raw", path), text, header("Content-Type", "application/octet-stream")); a.status != 200 {
		t.Fatalf("write %s: %d %s", path, a.status, a.body)
	}
}

// get is a file's content by the API.
func (b *target) get(t testing.TB, path string) string {
	t.Helper()
	a := b.do(t, "GET", b.file("read", path)+"&raw=1", nil)
	if a.status != 200 || a.broken != nil {
		t.Fatalf("read %s: %d %v %.200s", path, a.status, a.broken, a.body)
	}
	return a.body
}
