package mcpserver_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandkasten/sandkasten/agents/tools"
	"github.com/sandkasten/sandkasten/internal/mcpserver"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// oneSession is a daemon with a session s of workflow:run-1, whose file a has content
// and whose file b is not there.
type oneSession struct{}

func (oneSession) RoundTrip(r *http.Request) (*http.Response, error) {
	status, kind, body := http.StatusNotFound, "application/json", `{"error":"none","code":"not_found"}`
	switch {
	case r.URL.Path == "/v1/sessions/s":
		status, body = http.StatusOK, `{"id":"s","labels":{"sandkasten.scope":"workflow:run-1"}}`
	case strings.HasSuffix(r.URL.Query().Get("path"), "a"):
		status, kind, body = http.StatusOK, "application/octet-stream", "content"
	case strings.HasSuffix(r.URL.Query().Get("path"), "broken"):
		status, body = http.StatusInternalServerError, `{"error":"broken","code":"internal"}`
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// connect returns a client of a server with these tools.
func connect(t *testing.T, sets func(mcpserver.Caller) (*tools.Set, error)) *mcp.ClientSession {
	t.Helper()
	return connectWith(t, sets, nil, nil)
}

func connectWith(t *testing.T, sets func(mcpserver.Caller) (*tools.Set, error), o *mcp.ClientOptions, of *mcp.ClientSessionOptions) *mcp.ClientSession {
	t.Helper()
	ours, itsOwn := mcp.NewInMemoryTransports()
	if _, err := mcpserver.New(mcpserver.Options{Sets: sets}).Connect(t.Context(), itsOwn, nil); err != nil {
		t.Fatal(err)
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, o).Connect(t.Context(), ours, of)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

// A caller whose scope is none is told so in the form of all other errors.
func TestMalformedScope(t *testing.T) {
	t.Parallel()
	session := connect(t, func(mcpserver.Caller) (*tools.Set, error) {
		_, err := tools.ParseScope("run-1")
		return nil, err
	})
	got, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "sandbox_open"})
	if err != nil {
		t.Fatal(err)
	}
	said, _ := got.StructuredContent.(map[string]any)
	if text, _ := said["error"].(string); !got.IsError || said["code"] != "invalid_argument" || !strings.HasPrefix(text, "sandbox_open: the scope") {
		t.Errorf("a call is answered %+v", got)
	}
	_, err = session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "sandbox://s/a"})
	if refused, ok := errors.AsType[*jsonrpc.Error](err); !ok || refused.Code != jsonrpc.CodeInvalidParams {
		t.Errorf("a file: %v", err)
	}
}

// What is wrong with an address is not a failure of the server, and a file or a list is for
// nobody but its reader.
func TestResourcesSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	client, err := sandkasten.New(sandkasten.Options{URL: "http://daemon", APIKey: "key", MaxRetries: -1, RetryTime: -1, HTTPClient: &http.Client{Transport: oneSession{}}})
	if err != nil {
		t.Fatal(err)
	}
	session := connect(t, func(mcpserver.Caller) (*tools.Set, error) {
		return tools.New(tools.Options{Client: client, Scope: tools.Scope{Namespace: "workflow", ID: "run-1"}})
	})
	got, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "sandbox://s/a"})
	if err != nil || got.Contents[0].Text != "content" || got.CacheScope != "private" {
		t.Errorf("%+v, %v", got, err)
	}
	offered, err := session.ListTools(t.Context(), nil)
	if err != nil || len(offered.Tools) == 0 || offered.CacheScope != "private" {
		t.Errorf("tools: %+v, %v", offered, err)
	}
	files, err := session.ListResources(t.Context(), nil)
	if err != nil || files.CacheScope != "private" {
		t.Errorf("resources: %+v, %v", files, err)
	}
	forms, err := session.ListResourceTemplates(t.Context(), nil)
	if err != nil || forms.CacheScope != "private" {
		t.Errorf("templates: %+v, %v", forms, err)
	}
	for uri, want := range map[string]int64{
		"sandbox://s/b": jsonrpc.CodeInvalidParams, "sandbox://other/a": jsonrpc.CodeInvalidParams,
		"sandbox://s/../a": jsonrpc.CodeInvalidParams, "sandbox://s/broken": jsonrpc.CodeInternalError,
	} {
		_, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
		var said *jsonrpc.Error
		if !errors.As(err, &said) || said.Code != want {
			t.Errorf("%s: %v, want %d", uri, err, want)
		}
	}
}
