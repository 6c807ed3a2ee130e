package agents

import (
	"encoding/json"
	"fmt"
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

func TestSetupsAreJSONOrACommand(t *testing.T) {
	t.Parallel()
	for name, form := range setups {
		text := fmt.Sprintf(form, sandkasten.DefaultURL)
		if name == "claude-code" {
			continue
		}
		comment, body, _ := strings.Cut(text, "\n")
		if !strings.HasPrefix(comment, "# In ") || !json.Valid([]byte(body)) || !strings.Contains(body, sandkasten.DefaultURL) {
			t.Errorf("%s: %s", name, text)
		}
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
	for name := range setups {
		text := output(t, MCPCmd{Setup: name}.printSetup)
		if !strings.Contains(text, "http://sandbox.example.net") || !strings.Contains(text, "YOUR_KEY") {
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
