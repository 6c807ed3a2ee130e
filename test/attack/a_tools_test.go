package attack

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// rpc sends a request of the Model Context Protocol and returns what came back.
func (c *caller) rpc(t testing.TB, method string, params map[string]any, edits ...edit) reply {
	t.Helper()
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		t.Fatal(err)
	}
	edits = append([]edit{header("Content-Type", "application/json"), header("Accept", "application/json, text/event-stream")}, edits...)
	return c.do(t, "POST", "/mcp", string(body), edits...)
}

// tool calls a tool in a scope.
func (c *caller) tool(t testing.TB, scope, name string, args map[string]any) reply {
	t.Helper()
	return c.rpc(t, "tools/call", map[string]any{"name": name, "arguments": args}, header("Sandkasten-Scope", scope))
}

// A20: the tools at /mcp reach what the key owns and the scope has, by no id, address
// or name, and take nobody without a key or from another site's page.
func TestA20_ToolsOfAgents(t *testing.T) {
	t.Parallel()
	s := stage(t, anyDaemon)
	s.newUser(t, "toolsmith")
	v := s.signIn(t, "toolsmith")
	var key struct{ Key string }
	v.do(t, "POST", "/v1/keys", `{"name":"tools"}`, v.sends).into(t, &key)
	victim, thief := s.admin(t), as(t, s.d, key.Key)
	const scope = "workflow:a20"
	opened := victim.tool(t, scope, "sandbox_open", map[string]any{})
	_, rest, _ := strings.Cut(opened.body, `"sandbox_id":"`)
	id, _, _ := strings.Cut(rest, `"`)
	if id == "" {
		t.Fatalf("opened %d %s", opened.status, opened.body)
	}
	wrote := victim.tool(t, scope, "sandbox_fs_write", map[string]any{"sandbox_id": id, "path": "secret.txt", "contents": "CANARY-OF-A20"})
	if strings.Contains(wrote.body, `"isError":true`) {
		t.Fatal(wrote.body)
	}
	for who, c := range map[string]struct {
		*caller
		scope string
	}{"another owner": {thief, scope}, "another scope of the owner": {victim, "workflow:other"}} {
		for tool, args := range map[string]map[string]any{
			"sandbox_fs_read":     {"path": "secret.txt"},
			"sandbox_exec":        {"cmd": []string{"cat", "/workspace/secret.txt"}},
			"sandbox_shell":       {"command": "cat /workspace/secret.txt"},
			"sandbox_fs_grep":     {"pattern": "CANARY"},
			"sandbox_snapshot":    {},
			"sandbox_expose_port": {"port": 80},
			"sandbox_close":       {},
		} {
			args["sandbox_id"] = id
			got := c.tool(t, c.scope, tool, args)
			if strings.Contains(got.body, "CANARY-OF-A20") || !strings.Contains(got.body, `"isError":true`) {
				t.Errorf("%s with %s: %d %.300s", who, tool, got.status, got.body)
			}
		}
		got := c.rpc(t, "resources/read", map[string]any{"uri": "sandbox://" + id + "/secret.txt"}, header("Sandkasten-Scope", c.scope))
		if strings.Contains(got.body, "CANARY-OF-A20") || !strings.Contains(got.body, `"error"`) {
			t.Errorf("%s reads the resource: %.300s", who, got.body)
		}
	}
	// The same name is another scope.
	mine := thief.tool(t, scope, "sandbox_open", map[string]any{})
	if strings.Contains(mine.body, id) || !strings.Contains(mine.body, `\"created\":true`) && !strings.Contains(mine.body, `"created":true`) {
		t.Errorf("another owner's scope of the same name: %.300s", mine.body)
	}
	for what, edits := range map[string][]edit{
		"no key":       {without},
		"a wrong key":  {header("Authorization", "Bearer wrong")},
		"a made token": {header("Authorization", "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9.")},
	} {
		victim.rpc(t, "tools/list", nil, edits...).refused(t, fmt.Sprintf("tools with %s", what), 401)
	}
	victim.rpc(t, "tools/list", nil, header("Origin", "https://evil.test")).refused(t, "tools for another site's page", 403)
	if left := victim.tool(t, scope, "sandbox_fs_read", map[string]any{"sandbox_id": id, "path": "secret.txt"}); !strings.Contains(left.body, "CANARY-OF-A20") {
		t.Errorf("the owner reads %.300s", left.body)
	}
	victim.do(t, "POST", "/v1/scopes/workflow/a20/complete", map[string]any{}).refused(t, "complete the scope", 200)
	victim.do(t, "POST", "/v1/scopes/workflow/other/complete", map[string]any{}).refused(t, "complete the other scope", 200)
	victim.do(t, "DELETE", "/v1/users/toolsmith", nil).refused(t, "delete the user", 200)
}
