package mcpserver_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandkasten/sandkasten/agents/tools"
	"github.com/sandkasten/sandkasten/internal/mcpserver"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// asked is a daemon that has no sessions, and notes who asks.
type asked struct{ traceparents []string }

func (a *asked) RoundTrip(r *http.Request) (*http.Response, error) {
	a.traceparents = append(a.traceparents, r.Header.Get("Traceparent"))
	return &http.Response{
		StatusCode: http.StatusNotFound, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(`{}`)),
	}, nil
}

// Over standard streams there is no header: the call itself says whom it belongs to,
// and what it does at the daemon belongs there too. Nonsense hurts no call.
func TestRequestsBelongToTheCallersSpan(t *testing.T) {
	t.Parallel()
	const theirs = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, c := range []struct {
		said any
		want string
	}{{theirs, theirs}, {nil, ""}, {7, ""}, {"00-0a\r\nX-Api-Key: b", ""}, {"\u00e4", ""}, {strings.Repeat("0", 1000), ""}} {
		daemon := &asked{}
		client, err := sandkasten.New(sandkasten.Options{URL: "http://daemon", APIKey: "key", MaxRetries: -1, RetryTime: -1, HTTPClient: &http.Client{Transport: mcpserver.HandCaller(daemon)}})
		if err != nil {
			t.Fatal(err)
		}
		session := connect(t, func(mcpserver.Caller) (*tools.Set, error) {
			return tools.New(tools.Options{Client: client, Scope: tools.Scope{Namespace: "workflow", ID: "run-1"}})
		})
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{
			Meta: mcp.Meta{"traceparent": c.said}, Name: "sandbox_fs_list", Arguments: json.RawMessage(`{"sandbox_id":"x"}`),
		})
		if err != nil {
			t.Fatal(err)
		}
		if !result.IsError || !strings.Contains(result.Content[0].(*mcp.TextContent).Text, "http_404") {
			t.Errorf("%v: %+v", c.said, result.Content[0])
		}
		if len(daemon.traceparents) != 1 || daemon.traceparents[0] != c.want {
			t.Errorf("%.80v: the daemon is told %q, want %q", c.said, daemon.traceparents, c.want)
		}
	}
}
