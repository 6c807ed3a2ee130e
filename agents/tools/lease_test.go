package tools_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/agents/tools"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// TestHold counts the signs of life that a daemon gets, one of which it refuses.
func TestHold(t *testing.T) {
	var signs, refused atomic.Int64
	refused.Store(2)
	var hangs atomic.Pointer[chan struct{}]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hung := hangs.Load(); hung != nil {
			<-*hung
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/v1/scopes/workflow/r/complete" || strings.TrimSpace(string(body)) != `{"retention_seconds":1}` {
			t.Errorf("asked for %s %s, %v", r.URL.Path, body, err)
		}
		if signs.Add(1) == refused.Load() {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		answerWith(t, w, http.StatusOK, `{"scope":"workflow:r"}`)
	}))
	defer server.Close()
	client, err := sandkasten.New(sandkasten.Options{URL: server.URL, APIKey: "key"})
	if err != nil {
		t.Fatal(err)
	}
	scope := tools.Scope{Namespace: "workflow", ID: "r"}
	failed := make(chan error, 1)
	release, err := tools.Hold(t.Context(), client, scope, 200*time.Millisecond, func(err error) { failed <- err })
	if err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !strings.Contains(err.Error(), "workflow:r") {
		t.Errorf("it was told %v", err)
	}
	for signs.Load() < 5 {
		time.Sleep(time.Millisecond)
	}
	release()
	hung := make(chan struct{})
	defer close(hung)
	hangs.Store(&hung)
	begun := time.Now()
	if _, err := tools.Hold(t.Context(), client, scope, 5*time.Second, nil); err == nil || time.Since(begun) > 4*time.Second {
		t.Errorf("%v after %s: one request took most of the lease", err, time.Since(begun))
	}
	hangs.Store(nil)
	refused.Store(signs.Load() + 1)
	if _, err := tools.Hold(t.Context(), client, scope, 200*time.Millisecond, nil); err == nil {
		t.Error("the first sign was refused, and nobody hears of it")
	}
}
