// Package mcpserver offers the tools of agents/tools by the Model Context Protocol.
// It knows no transport: the daemon serves it over HTTP, and the command line over
// its standard streams. Sandboxes belong to scopes, not to connections, so that a
// client that comes again goes on.
package mcpserver

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandkasten/sandkasten/agents/tools"
	"github.com/sandkasten/sandkasten/sdk/go"
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
	// Alone is a transport whose requests stand alone, as those over HTTP of protocols before
	// 2026-07-28: there is nothing by which a client could be told of changes.
	Alone bool
	Log   *slog.Logger
}

// New returns a server.
func New(o Options) *mcp.Server {
	s := newServer(o)
	closed := false
	for _, t := range tools.Offered(o.ScopeArgument, o.Files) {
		s.mcp.AddTool(&mcp.Tool{
			Name: t.Name, Title: t.Title, Description: t.Description, InputSchema: t.Schema(), OutputSchema: t.Output(),
			Annotations: &mcp.ToolAnnotations{ReadOnlyHint: t.ReadOnly, DestructiveHint: &t.Destructive, IdempotentHint: t.Idempotent, OpenWorldHint: &closed},
		}, s.call)
	}
	s.mcp.AddResourceTemplate(&mcp.ResourceTemplate{
		Name: "file", Title: "A file of a sandbox", URITemplate: "sandbox://{id}/{+path}",
		Description: fmt.Sprintf("A file below /workspace of up to %d bytes.", maxResource),
	}, s.read)
	return s.mcp
}

// NewListener returns a server of one client that only follows files. A server tells all
// its clients who follow an address, and the same one is another file of another owner.
// It has no tools, which take a megabyte and a millisecond to describe.
func NewListener(o Options) *mcp.Server { return newServer(o).mcp }

func newServer(o Options) *server {
	s := &server{opts: o}
	options := &mcp.ServerOptions{
		Instructions: instructions, Logger: o.Log, SetCacheable: forOneReader,
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}, Resources: &mcp.ResourceCapabilities{Subscribe: !o.Alone}},
	}
	if !o.Alone {
		options.SubscribeHandler, options.UnsubscribeHandler = s.subscribe, s.unsubscribe
	}
	s.mcp = mcp.NewServer(&mcp.Implementation{Name: "sandkasten", Title: "Sandkasten", Version: o.Version}, options)
	s.mcp.AddReceivingMiddleware(refuseUnannounced, endWithRequest)
	return s
}

// refuseUnannounced refuses methods of capabilities that the server does not announce. The
// library answers some of them with an empty list.
func refuseUnannounced(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		for _, group := range []string{"prompts/", "logging/", "completion/"} {
			if strings.HasPrefix(method, group) {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: fmt.Sprintf("%s: this server has tools and resources only", method)}
			}
		}
		return next(ctx, method, req)
	}
}

// forOneReader marks what is read and listed: all of it takes a key, and whoever stands between
// client and server must not give it to others. Without a mark it is for everybody.
func forOneReader(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { c.CacheScope = "private" }

type server struct {
	opts    Options
	mcp     *mcp.Server
	follows subscriptions
}

func (s *server) set(client *mcp.Implementation, extra *mcp.RequestExtra) (*tools.Set, error) {
	var c Caller
	if client != nil {
		c.Client = client.Name
	}
	if extra != nil {
		c.Header = extra.Header
		// By the older protocols a client says its name once, which no connection keeps.
		c.Client = cmp.Or(c.Client, productOf(c.Header.Get("User-Agent")))
	}
	return s.opts.Sets(c)
}

// productOf is the program that a header User-Agent names first, as RFC 9110 has it.
func productOf(agent string) string {
	product, _, _ := strings.Cut(strings.TrimSpace(agent), " ")
	name, _, _ := strings.Cut(product, "/")
	return name
}

// call runs a tool. What goes wrong is for the model to read.
func (s *server) call(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	set, err := s.set(req.ClientInfo(), req.Extra)
	if err != nil {
		return answer(tools.Refusal(req.Params.Name, err)), nil
	}
	if token := req.Params.GetProgressToken(); token != nil {
		ctx = tools.WithProgress(ctx, func(elapsed time.Duration, message string) {
			// A client that does not listen any more is told of the end, too.
			_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: elapsed.Seconds(), Message: message})
		})
	}
	return answer(set.Call(withCaller(ctx, req.Params.Meta), req.Params.Name, req.Params.Arguments)), nil
}

func answer(r tools.Result) *mcp.CallToolResult {
	content := []mcp.Content{&mcp.TextContent{Text: r.Text()}}
	for _, image := range r.Images {
		content = append(content, &mcp.ImageContent{MIMEType: image.MIME, Data: image.Data})
	}
	return &mcp.CallToolResult{Content: content, StructuredContent: r.JSON, IsError: r.IsError}
}

// read returns a file.
func (s *server) read(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	set, err := s.set(req.ClientInfo(), req.Extra)
	if err != nil {
		return nil, resourceError(req.Params.URI, err)
	}
	id, name, ok := place(req.Params.URI)
	if !ok {
		return nil, mcp.ResourceNotFoundError(req.Params.URI)
	}
	data, err := set.File(ctx, id, name, maxResource)
	if err != nil {
		return nil, resourceError(req.Params.URI, err)
	}
	content := &mcp.ResourceContents{URI: req.Params.URI, MIMEType: "text/plain; charset=utf-8"}
	if utf8.Valid(data) && !strings.ContainsRune(string(data), 0) {
		content.Text = string(data)
	} else {
		content.MIMEType, content.Blob = "application/octet-stream", data
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{content}}, nil
}

// resourceError is an error with the code that the protocol has for it. Without one,
// clients take it for a failure of the server.
func resourceError(uri string, err error) error {
	code := int64(jsonrpc.CodeInternalError)
	var refused *sandkasten.APIError
	var input *tools.InputError
	switch {
	case errors.Is(err, sandkasten.ErrNotFound), // which is wrong input by SEP-2164
		errors.As(err, &input), errors.Is(err, tools.ErrTooLarge), errors.As(err, &refused) && refused.Code == "invalid_argument":
		code = jsonrpc.CodeInvalidParams
	}
	return &jsonrpc.Error{Code: code, Message: fmt.Sprintf("%s: %v", uri, err)}
}

// place is the sandbox and the file that an address names.
func place(uri string) (id, name string, ok bool) {
	address, err := url.Parse(uri)
	if err != nil || address.Scheme != "sandbox" || address.Host == "" {
		return "", "", false
	}
	return address.Host, strings.TrimPrefix(address.Path, "/"), true
}

// maxName bounds the part of a client's name that is in its scope.
const maxName = 64

// DefaultScope is the scope of a client that names none: one for each program and key.
// Of the key it has a few bits of a digest, from which nobody finds the key. A token
// of a provider, which is another one after an hour, is not told apart.
func DefaultScope(client, key string) tools.Scope {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '.', r == '_':
			return r
		}
		return '-'
	}, strings.ToLower(client))
	id := cmp.Or(name[:min(len(name), maxName)], "mcp")
	if key != "" && strings.Count(key, ".") != 2 { // as a JWT has
		digest := sha256.Sum256([]byte("default scope\x00" + key))
		id += "." + hex.EncodeToString(digest[:4])
	}
	return tools.Scope{Namespace: "user", ID: id}
}
