package agents

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// Clients are the programs that MCPCmd can be set up in, in the order of the documentation.
var Clients = []string{"claude-code", "claude-desktop", "codex", "cursor", "gemini-cli", "vscode", "windsurf", "zed"}

// placeholder stands for a key in what is printed.
const placeholder = "YOUR_KEY"

// server is what a client is told of one server.
type server struct {
	program string // that it starts, and empty where it takes an address
	url     string // of the daemon
}

// setup is how one client is told of a server.
type setup struct {
	file    string // that has the configuration
	members string // the object in it that has a member for each server
	kinds   [2]any // of the member type, for a program and for an address; nil has none
	address string // the member that has the address; empty where it takes none
}

// setups are those of clients whose configuration is JSON.
var setups = map[string]setup{
	"claude-desktop": {file: "claude_desktop_config.json (Settings, Developer, Edit Config)", members: "mcpServers"},
	"cursor":         {file: "~/.cursor/mcp.json, or .cursor/mcp.json of a project", members: "mcpServers", address: "url"},
	"gemini-cli":     {file: "~/.gemini/settings.json, or .gemini/settings.json of a project", members: "mcpServers", address: "httpUrl"},
	"vscode":         {file: ".vscode/mcp.json", members: "servers", kinds: [2]any{"stdio", "http"}, address: "url"},
	"windsurf":       {file: "~/.codeium/windsurf/mcp_config.json", members: "mcpServers", address: "serverUrl"},
	"zed":            {file: "Zed's settings.json", members: "context_servers", address: "url"},
}

// errNoAddress is a client that only starts programs.
var errNoAddress = cli.Wrong("claude-desktop starts a program for each server and takes no address with a key: leave --http out")

// setupText is what to configure in a client.
func setupText(client string, s server) (string, error) {
	switch client {
	case "claude-code":
		return claudeCode(s), nil
	case "codex":
		return codex(s), nil
	}
	return setups[client].text(s)
}

func claudeCode(s server) string {
	if s.program == "" {
		return fmt.Sprintf("claude mcp add --transport http sandkasten %s/mcp --header \"Authorization: Bearer %s\"\n", s.url, placeholder)
	}
	return fmt.Sprintf("claude mcp add --env SANDKASTEN_URL=%s --env SANDKASTEN_API_KEY=%s --transport stdio sandkasten -- %s mcp\n",
		s.url, placeholder, shellWord(s.program))
}

// shellWord is a word of a shell's command line.
func shellWord(text string) string {
	if !strings.ContainsAny(text, " \t'\"\\$`&|;<>()*?[]#~") {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

func codex(s server) string {
	const head = "# In ~/.codex/config.toml:\n[mcp_servers.sandkasten]\n"
	if s.program == "" {
		return head + fmt.Sprintf("url = %s\nbearer_token_env_var = \"SANDKASTEN_API_KEY\" # export it with your key: %s\n", quoted(s.url+"/mcp"), placeholder)
	}
	return head + fmt.Sprintf("command = %s\nargs = [\"mcp\"]\nenv = { SANDKASTEN_URL = %s, SANDKASTEN_API_KEY = %q }\n", quoted(s.program), quoted(s.url), placeholder)
}

// quoted is a text in JSON, which TOML reads as well.
func quoted(text string) string {
	encoded, err := json.Marshal(text)
	if err != nil {
		panic(err) // a text can be encoded
	}
	return string(encoded)
}

func (c setup) text(s server) (string, error) {
	var lines []string
	add := func(name, value string) { lines = append(lines, fmt.Sprintf("      %s: %s", quoted(name), value)) }
	kind := c.kinds[0]
	if s.program == "" {
		if c.address == "" {
			return "", errNoAddress
		}
		kind = c.kinds[1]
	}
	if text, ok := kind.(string); ok {
		add("type", quoted(text))
	}
	if s.program == "" {
		add(c.address, quoted(s.url+"/mcp"))
		add("headers", fmt.Sprintf(`{"Authorization": "Bearer %s"}`, placeholder))
	} else {
		add("command", quoted(s.program))
		add("args", `["mcp"]`)
		add("env", fmt.Sprintf(`{"SANDKASTEN_URL": %s, "SANDKASTEN_API_KEY": "%s"}`, quoted(s.url), placeholder))
	}
	return fmt.Sprintf("// In %s:\n{\n  %s: {\n    \"sandkasten\": {\n%s\n    }\n  }\n}\n", c.file, quoted(c.members), strings.Join(lines, ",\n")), nil
}

// thisProgram is how a client starts this program: by its name where PATH leads here, else by
// its path, since a client's PATH need not be the shell's.
func thisProgram() (string, error) {
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	name := filepath.Base(own)
	if found, err := exec.LookPath(name); err == nil && sameFile(found, own) {
		return name, nil
	}
	return own, nil
}

func sameFile(one, other string) bool {
	a, err := os.Stat(one)
	if err != nil {
		return false
	}
	b, err := os.Stat(other)
	return err == nil && os.SameFile(a, b)
}

func (c MCPCmd) printSetup(a *cli.App) error {
	s := server{url: strings.TrimSuffix(a.URL, "/")}
	if s.url == "" {
		s.url = sandkasten.DefaultURL
		if configured, err := a.Configuration(); err == nil {
			s.url = configured.URL()
		}
	}
	if !c.HTTP {
		var err error
		if s.program, err = thisProgram(); err != nil {
			return err
		}
	}
	text, err := setupText(c.Setup, s)
	if err != nil {
		return err
	}
	a.Say("Put a key in the place of %s: `sandkasten key create --user NAME --name %s` makes one.", placeholder, c.Setup)
	_, err = fmt.Fprint(a.Out, text)
	return err
}
