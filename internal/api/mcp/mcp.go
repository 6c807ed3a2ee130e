// Package mcp serves the tools of agents at /mcp, by the Model Context Protocol's
// streamable HTTP. A call goes through the daemon's own API, in the name of the key
// that the request has, so that who may do what is decided where it always is.
package mcp

import (
	"cmp"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandkasten/sandkasten/agents/tools"
	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/mcpserver"
	"github.com/sandkasten/sandkasten/internal/orchestrator/artifacts"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// Options configures the surface. Transport is required.
type Options struct {
	Version   string
	Transport http.RoundTripper     // to the daemon's own API
	Registry  prometheus.Registerer // nil keeps no metrics
	Issuer    string                // whose access tokens are taken, too; empty is nobody's
	Files     *artifacts.Service    // that tools stage and publish; nil leaves these tools out
	Log       *slog.Logger          // silence
}

// url is the daemon's for Transport, which needs no address.
const url = "http://localhost"

// listens is the method of a request that follows files.
const listens = "subscriptions/listen"

// listening is the first version of the protocol whose clients over HTTP can be told of
// changes. All versions are dates.
const listening = "2026-07-28"

// serverKind is what sets the servers apart that requests are given.
type serverKind struct {
	scoped bool // the request says its scope
	alone  bool // the protocol has nothing by which a client is told of changes
}

// New returns the surface.
func New(o Options) api.Surface {
	s := &surface{http: &http.Client{Transport: o.Transport}, calls: newCalls(o.Registry), sets: make(map[caller]*tools.Set)}
	if o.Files != nil {
		s.files = files{o.Files}
	}
	// A request that says its scope is held to it.
	servers := map[serverKind]*mcp.Server{}
	for _, kind := range []serverKind{{}, {scoped: true}, {alone: true}, {scoped: true, alone: true}} {
		servers[kind] = mcpserver.New(mcpserver.Options{
			Version: o.Version, Sets: s.set, ScopeArgument: !kind.scoped, Alone: kind.alone, Files: o.Files != nil, Log: o.Log,
		})
	}
	streamable := mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		if r.Header.Get("Mcp-Method") == listens { // the library compares it with the body
			return mcpserver.NewListener(mcpserver.Options{Version: o.Version, Sets: s.set, Log: o.Log})
		}
		return servers[serverKind{scoped: r.Header.Get(mcpserver.ScopeHeader) != "", alone: r.Header.Get("Mcp-Protocol-Version") < listening}]
	}, &mcp.StreamableHTTPOptions{
		Stateless: true, Logger: o.Log,
		PropagateRequestCancellation: true, // a client that goes away ends its call
		DisableLocalhostProtection:   true, // hosts and origins are checked before, for all surfaces
	})
	handler := rpcErrors(func(w http.ResponseWriter, r *http.Request) {
		streamable.ServeHTTP(w, mcpserver.WithRequest(r))
	})
	routes := []api.Route{
		{Pattern: "POST /mcp", Scope: api.Key, Class: api.Long, Acts: true, Tokens: described, Handler: handler},
		{Pattern: "GET /mcp", Scope: api.Key, Tokens: described, Handler: handler},
		{Pattern: "DELETE /mcp", Scope: api.Key, Tokens: described, Handler: handler},
	}
	if o.Issuer != "" {
		for _, path := range []string{described, wellKnown} {
			routes = append(routes, api.Route{Pattern: "GET " + path, Scope: api.Public, Handler: describe(o.Issuer)})
		}
	}
	return api.Surface{Name: "mcp", Routes: routes}
}

// Where clients find out which provider to ask for a token: RFC 9728 puts the path of
// what is protected behind the well-known one, and some clients leave it out.
const (
	wellKnown = "/.well-known/oauth-protected-resource"
	described = wellKnown + "/mcp"
)

// resource is the description of a protected resource, by RFC 9728.
type resource struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Methods  []string `json:"bearer_methods_supported"`
	Name     string   `json:"resource_name"`
}

func describe(issuer string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		api.WriteJSON(w, r, http.StatusOK, resource{api.Base(r) + "/mcp", []string{issuer}, []string{"header"}, "Sandkasten"})
	})
}

type surface struct {
	http  *http.Client
	calls *calls
	files tools.FileStore // nil without

	mu   sync.Mutex
	sets map[caller]*tools.Set // guarded by mu
}

// caller is whose tools a request uses: they remember where that one's sandboxes are.
type caller struct {
	key   [sha256.Size]byte // and what the client names itself
	scope string            // that the request says
}

// maxSets bounds how many callers' tools are remembered.
const maxSets = 256

// noKey is sent to a daemon that asks nobody for a key.
const noKey = "none"

// set is the tools of a request.
func (s *surface) set(c mcpserver.Caller) (*tools.Set, error) {
	key := cmp.Or(strings.TrimSpace(bearer(c.Header.Get("Authorization"))), c.Header.Get("X-Api-Key"))
	if key == "" { // whose cookie it is does not show here
		return s.newSet(c, key)
	}
	of := caller{sha256.Sum256([]byte(key + "\x00" + c.Client)), c.Header.Get(mcpserver.ScopeHeader)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if set := s.sets[of]; set != nil {
		return set, nil
	}
	set, err := s.newSet(c, key)
	if err != nil {
		return nil, err
	}
	for other := range s.sets {
		if len(s.sets) < maxSets {
			break
		}
		delete(s.sets, other)
	}
	s.sets[of] = set
	return set, nil
}

func (s *surface) newSet(c mcpserver.Caller, key string) (*tools.Set, error) {
	client, err := sandkasten.New(sandkasten.Options{URL: url, APIKey: cmp.Or(key, noKey), HTTPClient: s.http, MaxRetries: -1, RetryTime: -1})
	if err != nil {
		return nil, err
	}
	o := tools.Options{Client: client, Scope: mcpserver.DefaultScope(c.Client, key), ScopeArgument: true, Files: s.files, Observe: s.calls.observe}
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
