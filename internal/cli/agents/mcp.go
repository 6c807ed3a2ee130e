package agents

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandkasten/sandkasten/agents/tools"
	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/mcpserver"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// MCPCmd is `sandkasten mcp`.
type MCPCmd struct {
	Scope string `placeholder:"SCOPE" help:"Whose sandboxes they are, as workflow:run-1. By default the client's program's."`
	Files string `type:"existingdir" placeholder:"DIR" help:"Directory of files that tools may stage and publish."`
	Setup string `enum:"claude-code,claude-desktop,codex,cursor,gemini-cli,vscode,windsurf,zed," default:"" placeholder:"CLIENT" help:"Print what to configure in a client: claude-code, claude-desktop, codex, cursor, gemini-cli, vscode, windsurf or zed."`
	HTTP  bool   `name:"http" help:"With --setup: for a client that takes the daemon's address and starts no program."`
}

// Help is what --help adds.
func (MCPCmd) Help() string {
	return `Offers the tools of agents by the Model Context Protocol on standard input and
output, for a client that starts it. It starts nothing itself: it speaks to the daemon
with your key. The daemon offers the same at /mcp.

  sandkasten mcp --setup claude-code
  sandkasten mcp --setup cursor --http
  sandkasten mcp --scope workflow:run-1 --files ./shared`
}

// Run implements the command.
func (c MCPCmd) Run(ctx context.Context, a *cli.App) (err error) {
	if c.Setup != "" {
		return c.printSetup(a)
	}
	if c.HTTP {
		return cli.Wrong("--http is about what --setup prints; the daemon offers the tools at /mcp by itself")
	}
	// A program waits for a daemon that is being restarted, as people would not.
	client, err := a.ClientWith(sandkasten.Options{WrapTransport: mcpserver.HandCaller})
	if err != nil {
		return err
	}
	key, err := a.Key()
	if err != nil {
		return err
	}
	server := &stdio{key: key, options: tools.Options{Client: client}, sets: map[tools.Scope]*tools.Set{}}
	if c.Scope != "" {
		if server.options.Scope, err = tools.ParseScope(c.Scope); err != nil {
			return err
		}
	}
	server.options.ScopeArgument = c.Scope == ""
	if c.Files != "" {
		store, err := tools.OpenDir(c.Files)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, store.Close()) }()
		server.options.Files = store
	}
	m := mcpserver.New(mcpserver.Options{
		Version: a.Version, Sets: server.set, ScopeArgument: server.options.ScopeArgument, Files: server.options.Files != nil,
	})
	err = m.Run(ctx, mcpserver.Stdio(a.In, a.Out))
	if errors.Is(err, io.EOF) || errors.Is(err, mcp.ErrConnectionClosed) { // the client has gone
		return nil
	}
	return err
}

// stdio has the tools of one client.
type stdio struct {
	options tools.Options
	key     string

	mu   sync.Mutex
	sets map[tools.Scope]*tools.Set // guarded by mu
}

func (s *stdio) set(c mcpserver.Caller) (*tools.Set, error) {
	o := s.options
	if o.Scope == (tools.Scope{}) {
		o.Scope = mcpserver.DefaultScope(c.Client, s.key)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if set := s.sets[o.Scope]; set != nil {
		return set, nil
	}
	set, err := tools.New(o)
	if err == nil {
		s.sets[o.Scope] = set
	}
	return set, err
}
