package agents

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandkasten/sandkasten/internal/tracing/tracingtest"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

// A call at /mcp shows as one tree under the caller's trace: the request, the tool, the
// request to the API that the tool makes, and what the runner does.
func TestSpansOfACall(t *testing.T) {
	t.Parallel()
	collector := tracingtest.New(t)
	d := blackbox.Start(t, blackbox.Options{Config: "tracing: {endpoint: " + collector.URL + "}"})
	s := connect(t, overHTTP(d, "workflow:traced"), nil)
	opened, _ := use(t, s, "sandbox_open", nil)
	use(t, s, "sandbox_exec", in(opened.SandboxID, m{"cmd": []string{"echo", "SECRET-CONTENT"}}))
	use(t, s, "sandbox_fs_read", in(opened.SandboxID, m{"path": "SECRET-PATH"}))
	// A call that says its caller is in that trace, with what it does at the daemon.
	const said, caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "0af7651916cd43dd8448eb211c80319c"
	pipes := connect(t, overPipes(d, "--scope", "workflow:traced"), nil)
	for _, session := range []*mcp.ClientSession{s, pipes} {
		if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{
			Meta: mcp.Meta{"traceparent": said}, Name: "sandbox_fs_list", Arguments: in(opened.SandboxID, nil),
		}); err != nil {
			t.Error(err)
		}
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	}
	d.Stop() // sends what waits
	joined := map[string]int{}
	for _, span := range collector.Spans() {
		if hex.EncodeToString(span.GetTraceId()) == caller {
			joined[span.GetName()]++
		}
	}
	if joined["tool.sandbox_fs_list"] != 1 || joined["GET /v1/sessions/{id}/fs/list"] != 2 {
		t.Errorf("in the caller's trace are %v", joined)
	}
	trees := collector.Trees(t)
	all := strings.Join(trees, "\n")
	for _, want := range []string{
		"POST /mcp > [tool.sandbox_open > [GET /v1/sessions, POST /v1/sessions > [manager.create > [driver.create",
		"POST /mcp > [tool.sandbox_exec > [",
		"[POST /v1/sessions/{id}/processes > [manager.run_process > [runner.",
		"POST /mcp > [tool.sandbox_fs_read > [",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("there is no %s in\n%s", want, all)
		}
	}
	for _, span := range collector.Spans() {
		text := fmt.Sprint(span)
		if strings.Contains(text, "SECRET") {
			t.Errorf("a span has content: %s", text)
		}
		if strings.HasPrefix(span.GetName(), "tool.sandbox_exec") && (!strings.Contains(text, opened.SandboxID) || !strings.Contains(text, "workflow:traced")) {
			t.Errorf("the tool's span lacks its session or scope: %s", text)
		}
		if span.GetEndTimeUnixNano()-span.GetStartTimeUnixNano() > uint64(time.Minute) {
			t.Errorf("%s took long", span.GetName())
		}
	}
}
