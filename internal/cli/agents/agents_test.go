package agents

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/agents/tools"
	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/sdk/go"
)

func TestDocumentHasTheTable(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), tools.Table(tools.All())) {
		t.Error("docs/agents.md has another table than `sandkasten tools --format table` prints: replace it")
	}
}

// Each client's setup is what docs/mcp-clients.md shows of it.
func TestDocumentHasTheSetups(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/mcp-clients.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, client := range Clients {
		for _, s := range []server{{"sandkasten", sandkasten.DefaultURL}, {"", sandkasten.DefaultURL}} {
			text, err := setupText(client, s)
			if errors.Is(err, errNoAddress) && client == "claude-desktop" {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(page), "\n"+text+"```\n") {
				t.Errorf("docs/mcp-clients.md lacks what --setup %s prints:\n%s", client, text)
			}
		}
	}
}

func TestSetupsAreOfTheirForm(t *testing.T) {
	t.Parallel()
	for name := range setups {
		for _, s := range []server{{`C:\a "b"`, sandkasten.DefaultURL}, {"", sandkasten.DefaultURL}} {
			text, err := setupText(name, s)
			if errors.Is(err, errNoAddress) {
				continue
			}
			comment, body, _ := strings.Cut(text, "\n")
			if err != nil || !strings.HasPrefix(comment, "// In ") || !json.Valid([]byte(body)) || !strings.Contains(body, sandkasten.DefaultURL) {
				t.Errorf("%s: %s, %v", name, text, err)
			}
		}
	}
	if text := claudeCode(server{"/a b/c", "http://x"}); !strings.HasSuffix(text, " -- '/a b/c' mcp\n") {
		t.Error(text)
	}
}

// output is what a command prints.
func output(t *testing.T, run func(a *cli.App) error) string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := run(&cli.App{Out: file, Err: &strings.Builder{}, Flags: cli.Flags{URL: "http://sandbox.example.net"}}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPrintedTools(t *testing.T) {
	t.Parallel()
	for _, format := range tools.Formats {
		text := output(t, ToolsCmd{Format: string(format)}.Run)
		var list []any
		if err := json.Unmarshal([]byte(text), &list); err != nil || len(list) != len(tools.All()) {
			t.Errorf("%s: %d tools, %v", format, len(list), err)
		}
	}
	if text := output(t, ToolsCmd{Format: "table"}.Run); !strings.HasPrefix(text, "| Tool |") {
		t.Errorf("got %s", text)
	}
}

func TestSetupNamesTheDaemon(t *testing.T) {
	t.Parallel()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Clients {
		text := output(t, MCPCmd{Setup: name}.printSetup)
		// The tests' program is in no PATH, as one that was just built is not.
		if !strings.Contains(text, "http://sandbox.example.net") || !strings.Contains(text, "YOUR_KEY") || !strings.Contains(text, own) {
			t.Errorf("%s: %s", name, text)
		}
		if name == "claude-desktop" {
			continue
		}
		if text := output(t, MCPCmd{Setup: name, HTTP: true}.printSetup); !strings.Contains(text, "http://sandbox.example.net/mcp") || strings.Contains(text, own) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

func TestScopesOfSessions(t *testing.T) {
	t.Parallel()
	now := time.Now()
	session := func(scope string, age time.Duration) *sandkasten.Session {
		info := sandkasten.SessionInfo{CreatedAt: now.Add(-age), LastActivity: now.Add(-age)}
		if scope != "" {
			info.Labels = map[string]string{tools.LabelScope: scope}
		}
		return &sandkasten.Session{Info: info}
	}
	got := scopesOf([]*sandkasten.Session{session("workflow:b", 3), session("", 2), session("agent:a", 2), session("workflow:b", 1)})
	if len(got) != 2 || got[0].Scope != "agent:a" || got[1].Sessions != 2 || !got[1].CreatedAt.Equal(now.Add(-3)) || !got[1].LastActivity.Equal(now.Add(-1)) {
		t.Errorf("got %+v", got)
	}
}
