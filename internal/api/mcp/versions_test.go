package mcp_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/mcp"
)

const newest = "2026-07-28"

// inVersion is the body of a request as a version of the protocol has it.
func inVersion(version, method, params string) string {
	meta := ""
	if version == newest {
		meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + newest + `","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
		if params != "" {
			meta += ","
		}
	}
	return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + meta + params + `}}`
}

// send posts a request, and returns the answer's JSON.
func send(ctx context.Context, t *testing.T, url, version, method, params string) (string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/mcp", strings.NewReader(inVersion(version, method, params)))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": version, "Mcp-Method": method,
	} {
		r.Header.Set(name, value)
	}
	if method == "initialize" {
		r.Header.Del("Mcp-Protocol-Version")
	}
	if _, rest, called := strings.Cut(params, `"name":"`); called {
		name, _, _ := strings.Cut(rest, `"`)
		r.Header.Set("Mcp-Name", name)
	}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if _, data, isEvent := strings.Cut(string(text), "data: "); isEvent {
		return data, err
	}
	return string(text), err
}

// hung is a daemon that never answers. It tells of requests that begin and that end.
type hung struct{ begun, ended chan struct{} }

func (d hung) RoundTrip(r *http.Request) (*http.Response, error) {
	d.begun <- struct{}{}
	<-r.Context().Done()
	d.ended <- struct{}{}
	return nil, r.Context().Err()
}

var versions = []string{"2025-03-26", "2025-06-18", "2025-11-25", newest}

// A client that closes its request ends its call, by each version of the protocol.
func TestAClosedRequestEndsItsCall(t *testing.T) {
	t.Parallel()
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			daemon := hung{make(chan struct{}, 1), make(chan struct{}, 1)}
			server := httptest.NewServer(api.Handler(api.Options{}, mcp.New(mcp.Options{Transport: daemon})))
			defer server.Close()
			ctx, closeRequest := context.WithCancel(t.Context())
			answered := make(chan error, 1)
			go func() {
				_, err := send(ctx, t, server.URL, version, "tools/call", `"name":"sandbox_fs_list","arguments":{"sandbox_id":"s"}`)
				answered <- err
			}()
			<-daemon.begun
			closeRequest()
			select {
			case <-daemon.ended:
			case <-time.After(10 * time.Second):
				t.Error("the call goes on")
			}
			if err := <-answered; err == nil {
				t.Error("it was answered")
			}
		})
	}
}

// What a version cannot do over HTTP it is not told of, and refused as unknown.
func TestCapabilitiesOfVersions(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(api.Handler(api.Options{}, mcp.New(mcp.Options{Transport: hung{}})))
	defer server.Close()
	for _, version := range versions {
		begin, params := "initialize", `"protocolVersion":"`+version+`","capabilities":{},"clientInfo":{"name":"c","version":"1"}`
		if version == newest {
			begin, params = "server/discover", ""
		}
		text, err := send(t.Context(), t, server.URL, version, begin, params)
		var said struct {
			Result struct{ Capabilities map[string]map[string]any }
		}
		if err != nil || json.Unmarshal([]byte(text), &said) != nil {
			t.Fatalf("%s: %s, %v", version, text, err)
		}
		got := said.Result.Capabilities
		if got["tools"] == nil || got["resources"] == nil || len(got) != 2 || (got["resources"]["subscribe"] == true) != (version == newest) {
			t.Errorf("%s is told of %s", version, text)
		}
		for _, method := range []string{"resources/subscribe", "resources/unsubscribe", "prompts/list", "prompts/get", "logging/setLevel", "completion/complete", "tasks/get"} {
			text, err := send(t.Context(), t, server.URL, version, method, `"uri":"sandbox://s/a","name":"x","level":"info","ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"a","value":"b"}`)
			var answer struct{ Error struct{ Code int } }
			if err != nil || json.Unmarshal([]byte(text), &answer) != nil || answer.Error.Code != -32601 {
				t.Errorf("%s of %s: %s, %v", method, version, text, err)
			}
		}
	}
}

// Malformed text is refused as the API refuses it, and not replaced. Each call is counted.
func TestMalformedTextIsRefusedAndCounted(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	server := httptest.NewServer(api.Handler(api.Options{}, mcp.New(mcp.Options{Transport: hung{}, Registry: registry})))
	defer server.Close()
	size := 0
	for contents, want := range map[string]string{"a\xffb": "UTF-8", `a\ud800b`: "surrogate", `\udc00\ud800`: "surrogate"} {
		text, err := send(t.Context(), t, server.URL, "2025-11-25", "tools/call", `"name":"sandbox_fs_write","arguments":{"sandbox_id":"s","path":"a","contents":"`+contents+`"}`)
		var answer struct {
			Result struct {
				IsError           bool
				Content           []struct{ Text string }
				StructuredContent struct{ Code, Error string }
			}
		}
		if err != nil || json.Unmarshal([]byte(text), &answer) != nil || !answer.Result.IsError || answer.Result.StructuredContent.Code != "invalid_argument" ||
			!strings.Contains(answer.Result.StructuredContent.Error, want) {
			t.Errorf("%q: %s, %v", contents, text, err)
			continue
		}
		size += len(answer.Result.Content[0].Text)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			labels := ""
			for _, l := range m.GetLabel() {
				labels += " " + l.GetValue()
			}
			counted[family.GetName()+labels] = m.GetCounter().GetValue()
		}
	}
	if counted["sandkasten_tool_calls_total refused sandbox_fs_write"] != 3 || counted["sandkasten_tool_answer_bytes_total sandbox_fs_write"] != float64(size) {
		t.Errorf("%d bytes; counted %v", size, counted)
	}
}
