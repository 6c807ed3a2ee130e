package mcpserver_test

import (
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/mcpserver"
)

func TestDefaultScopeIsOfTheClientsProgram(t *testing.T) {
	t.Parallel()
	for client, want := range map[string]string{
		"Claude Code": "user:claude-code", "": "user:mcp", "a/b:c@d": "user:a-b-c-d", "ä": "user:-", strings.Repeat("x", 200): "user:" + strings.Repeat("x", 64),
	} {
		got := mcpserver.DefaultScope(client, "")
		if got.String() != want || got.Check() != nil {
			t.Errorf("%q has %s (%v), want %s", client, got, got.Check(), want)
		}
	}
}

func TestDefaultScopeIsOfTheKey(t *testing.T) {
	t.Parallel()
	one, other := mcpserver.DefaultScope("x", "key-1"), mcpserver.DefaultScope("x", "key-2")
	if one == other || one != mcpserver.DefaultScope("x", "key-1") || one.Check() != nil || !strings.HasPrefix(one.ID, "x.") {
		t.Errorf("two keys have %s and %s", one, other)
	}
	if token := mcpserver.DefaultScope("x", "head.body.sum"); token != mcpserver.DefaultScope("x", "") {
		t.Errorf("a token, which is another one after an hour, has %s", token)
	}
}
