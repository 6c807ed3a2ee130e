// Package mcp serves the tools of agents at /mcp, by the Model Context Protocol's
// streamable HTTP. A call goes through the daemon's own API, in the name of the key
// that the request has, so that who may do what is decided where it always is.
package mcp

import (
	"cmp"
	"log/slog"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandkasten/sandkasten/agents/tools"
	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/mcpserver"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// Options configures the surface. Transport is required.
type Options struct {
	Version   string
	Transport http.RoundTripper // to the daemon's own API
	Log       *slog.Logger      // silence
}

// url is the daemon's for Transport, which needs no address.
const url = "http://localhost"

// New returns the surface.
func New(o Options) api.Surface {
	s := &surface{http: &http.Client{Transport: o.Transport}}
	// A request that says its scope is held to it.
	scoped := mcpserver.New(mcpserver.Options{Version: o.Version, Sets: s.set, Log: o.Log})
	free := mcpserver.New(mcpserver.Options{Version: o.Version, Sets: s.set, ScopeArgument: true, Log: o.Log})
	handler := mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		if r.Header.Get(mcpserver.ScopeHeader) != "" {
			return scoped
		}
		return free
	}, &mcp.StreamableHTTPOptions{
		Stateless: true, Logger: o.Log,
		PropagateRequestCancellation: true, // a client that goes away ends its call
		DisableLocalhostProtection:   true, // hosts and origins are checked before, for all surfaces
	})
	return api.Surface{Name: "mcp", Routes: []api.Route{
		{Pattern: "POST /mcp", Scope: api.Key, Class: api.Long, Acts: true, Handler: handler},
		{Pattern: "GET /mcp", Scope: api.Key, Handler: handler},
		{Pattern: "DELETE /mcp", Scope: api.Key, Handler: handler},
	}}
}

type surface struct{ http *http.Client }

// noKey is sent to a daemon that asks nobody for a key.
const noKey = "none"

// set is the tools of a request.
func (s *surface) set(c mcpserver.Caller) (*tools.Set, error) {
	key := cmp.Or(strings.TrimSpace(bearer(c.Header.Get("Authorization"))), c.Header.Get("X-Api-Key"), noKey)
	client, err := sandkasten.New(sandkasten.Options{URL: url, APIKey: key, HTTPClient: s.http, MaxRetries: -1, RetryTime: -1})
	if err != nil {
		return nil, err
	}
	o := tools.Options{Client: client, Scope: mcpserver.DefaultScope(c.Client), ScopeArgument: true}
	if text := c.Header.Get(mcpserver.ScopeHeader); text != "" {
		o.ScopeArgument = false
		if o.Scope, err = tools.ParseScope(text); err != nil {
			return nil, err
		}
	}
	return tools.New(o)
}

// bearer is the credential of a header that has one.
func bearer(header string) string {
	scheme, credential, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return credential
}
