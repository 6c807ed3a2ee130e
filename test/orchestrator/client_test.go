package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/test/blackbox"
)

// client speaks to a daemon's /api/sandbox, and to its /v1, with one key. It may be
// used by several goroutines.
type client struct {
	t   testing.TB
	url string
	key string
}

func clientOf(t testing.TB, d *blackbox.Daemon, key string) client { return client{t, d.URL, key} }

// httpClient waits as long as a sandbox may take on a busy machine.
var httpClient = &http.Client{Timeout: 2 * time.Minute}

const sessionsPath = "/api/sandbox/sessions/"

// call sends a request, of JSON if there is a body, and returns what comes back.
func (c client) call(ctx context.Context, method, path, body string) (status int, answer []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("X-Api-Key", c.key)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := httpClient.Do(r)
	if err != nil {
		return 0, nil, err
	}
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, errors.Join(err, response.Body.Close())
}

// session is what the tests look at of one.
type session struct {
	ID       string         `json:"id"`
	Status   string         `json:"status"`
	Ref      string         `json:"ref"`
	Error    string         `json:"error_message"`
	Metadata map[string]any `json:"metadata"`
}

// must is call with one of several statuses, and the answer in into, which may be
// nil.
func (c client) must(into any, method, path, body string, statuses ...int) (status int) {
	c.t.Helper()
	status, answer, err := c.call(c.t.Context(), method, path, body)
	for _, want := range statuses {
		if err != nil || status != want {
			continue
		}
		if into != nil {
			err = json.Unmarshal(answer, into)
		}
		if err != nil {
			c.t.Errorf("%s %s: %v in %.300s", method, path, err, answer)
		}
		return status
	}
	c.t.Errorf("%s %s %.200s: %d %.300s, %v; want one of %v", method, path, body, status, answer, err, statuses)
	return status
}

// awaitSession waits until a session is as it is to be.
func (c client) awaitSession(path, what string, holds func(session) bool) (x session) {
	c.t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		x = session{}
		if c.must(&x, http.MethodGet, path, "", http.StatusOK); holds(x) {
			return x
		}
	}
	c.t.Fatalf("%+v; want one that is %s", x, what)
	return x
}
