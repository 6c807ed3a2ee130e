package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/sdk/go"
)

// The example runs as it is, without a model: its program gets to the daemon, and what that
// printed into the answer.
func TestExample(t *testing.T) {
	t.Parallel()
	written := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/fs/raw"), strings.HasSuffix(r.URL.Path, "/fs/upload"):
			text, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			written += string(text)
			answer(t, w, `{"path":"/workspace/main.py","bytes":1}`)
		case strings.HasSuffix(r.URL.Path, "/processes"):
			answer(t, w, `{"exec_id":"e","status":"completed","cause":"exited","exit_code":0,"stdout":"[2, 3, 5]\n"}`)
		case r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/v1/images"):
			answer(t, w, `{"names":["python"],"digest":"sha256:a"}`)
		default:
			answer(t, w, `{"id":"box","status":"running"}`)
		}
	}))
	defer server.Close()
	client, err := sandkasten.New(sandkasten.Options{URL: server.URL, APIKey: "key", MaxRetries: -1})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(t.Context(), client, &out); err != nil || !strings.Contains(out.String(), "[2, 3, 5]") || !strings.Contains(written, "range(2, 30)") {
		t.Errorf("%q, wrote %q, %v", out.String(), written, err)
	}
}

func answer(t *testing.T, w http.ResponseWriter, text string) {
	t.Helper()
	if !json.Valid([]byte(text)) {
		t.Errorf("%s is no JSON", text)
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err := io.WriteString(w, text); err != nil {
		t.Error(err)
	}
}
