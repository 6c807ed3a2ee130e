package mcp_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/mcp"
)

// What is refused before it is a call is an error of JSON-RPC, too.
func TestRefusalsAreErrorsOfJSONRPC(t *testing.T) {
	h := api.Handler(api.Options{}, mcp.New(mcp.Options{Transport: &http.Transport{}}))
	for about, c := range map[string]struct {
		body, accept string
		code         int
		says         string
	}{
		"an empty object": {"{}", "application/json, text/event-stream", -32600, `expected "2.0"`},
		"no JSON":         {"{nonsense", "application/json, text/event-stream", -32700, "malformed"},
		"no body":         {"", "application/json, text/event-stream", -32600, "body"},
		"another media":   {`{"jsonrpc":"2.0","id":1,"method":"ping"}`, "text/html", -32600, "Accept"},
	} {
		r := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", strings.NewReader(c.body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", c.accept)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		text := w.Body.String()
		if _, data, isEvent := strings.Cut(text, "data: "); isEvent {
			text = data
		}
		var got struct {
			Version string `json:"jsonrpc"`
			Error   struct {
				Code    int
				Message string
			}
		}
		if err := json.Unmarshal([]byte(text), &got); err != nil || got.Version != "2.0" || got.Error.Code != c.code || !strings.Contains(got.Error.Message, c.says) {
			t.Errorf("%s: %d %s %s (%v)", about, w.Code, w.Header().Get("Content-Type"), w.Body, err)
		}
	}
}
