// Package mcpserver offers the tools of agents/tools by the Model Context Protocol.
// It knows no transport: the daemon serves it over HTTP, and the command line over
// its standard streams. Sandboxes belong to scopes, not to connections, so that a
// client that comes again goes on.
package mcpserver

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandkasten/sandkasten/agents/tools"
)

// ScopeHeader is the header of a request that says the scope of its tools.
const ScopeHeader = "Sandkasten-Scope"

// maxResource bounds a file that is read as a resource.
const maxResource = 1 << 20

// instructions tell a model how the tools belong together.
const instructions = "Linux sandboxes. Call sandbox_open first; its files below /workspace persist until the sandbox is closed or unused for long. Errors say the next step."

// Caller is who calls a tool.
type Caller struct {
	Client string      // the name of the client's program, or empty
	Header http.Header // of the HTTP request, or nil
}

// Options configures a server. Sets is required.
type Options struct {
	Version string
	// Sets returns the tools of a caller.
	Sets func(c Caller) (*tools.Set, error)
	// ScopeArgument offers the field scope. The sets must take it, too.
	ScopeArgument bool
	Files         bool // the sets have a store of files
	Log           *slog.Logger
}

// New returns a server.
func New(o Options) *mcp.Server {
	s := &server{opts: o}
	m := mcp.NewServer(&mcp.Implementation{Name: "sandkasten", Title: "Sandkasten", Version: o.Version}, &mcp.ServerOptions{
		Instructions: instructions, Logger: o.Log,
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}, Resources: &mcp.ResourceCapabilities{}},
	})
	closed := false
	for _, t := range tools.Offered(o.ScopeArgument, o.Files) {
		m.AddTool(&mcp.Tool{
			Name: t.Name, Description: t.Description, InputSchema: t.Schema(),
			Annotations: &mcp.ToolAnnotations{ReadOnlyHint: t.ReadOnly, DestructiveHint: &t.Destructive, OpenWorldHint: &closed},
		}, s.call)
	}
	m.AddResourceTemplate(&mcp.ResourceTemplate{
		Name: "file", Title: "A file of a sandbox", URITemplate: "sandbox://{id}/{+path}",
		Description: fmt.Sprintf("A file below /workspace of up to %d bytes.", maxResource),
	}, s.read)
	return m
}

type server struct{ opts Options }

func (s *server) set(client *mcp.Implementation, extra *mcp.RequestExtra) (*tools.Set, error) {
	var c Caller
	if client != nil {
		c.Client = client.Name
	}
	if extra != nil {
		c.Header = extra.Header
	}
	return s.opts.Sets(c)
}

// call runs a tool. What goes wrong is for the model to read.
func (s *server) call(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	set, err := s.set(req.ClientInfo(), req.Extra)
	if err != nil {
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: err.Error()}}}, nil
	}
	if token := req.Params.GetProgressToken(); token != nil {
		ctx = tools.WithProgress(ctx, func(elapsed time.Duration, message string) {
			// A client that does not listen any more is told of the end, too.
			_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: elapsed.Seconds(), Message: message})
		})
	}
	result := set.Call(ctx, req.Params.Name, req.Params.Arguments)
	return &mcp.CallToolResult{
		Content:           []mcp.Content{&mcp.TextContent{Text: result.Text()}},
		StructuredContent: result.JSON,
		IsError:           result.IsError,
	}, nil
}

// read returns a file.
func (s *server) read(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	set, err := s.set(req.ClientInfo(), req.Extra)
	if err != nil {
		return nil, err
	}
	address, err := url.Parse(req.Params.URI)
	if err != nil || address.Scheme != "sandbox" || address.Host == "" {
		return nil, mcp.ResourceNotFoundError(req.Params.URI)
	}
	data, err := set.File(ctx, address.Host, strings.TrimPrefix(address.Path, "/"), maxResource)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", req.Params.URI, err)
	}
	content := &mcp.ResourceContents{URI: req.Params.URI, MIMEType: "text/plain; charset=utf-8"}
	if utf8.Valid(data) && !strings.ContainsRune(string(data), 0) {
		content.Text = string(data)
	} else {
		content.MIMEType, content.Blob = "application/octet-stream", data
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{content}}, nil
}

// maxName bounds the part of a client's name that is in its scope.
const maxName = 64

// DefaultScope is the scope of a client that names none: one for each program.
func DefaultScope(client string) tools.Scope {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '.', r == '_':
			return r
		}
		return '-'
	}, strings.ToLower(client))
	return tools.Scope{Namespace: "user", ID: cmp.Or(name[:min(len(name), maxName)], "mcp")}
}
