package v1

import (
	"fmt"
	"net/http"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
	"github.com/sandkasten/sandkasten/internal/api/sessionmetrics"
)

// Sizes of request bodies. A command and its stdin, or the two texts of an edit, of
// 1 MiB each fit into maxExecBody with every character escaped as \uXXXX that
// commonly is.
const (
	maxExecBody  = 8 << 20
	maxBuildBody = 32 << 20 // a recipe's files as base64
)

// table is the whole contract: a row for every route. What each takes and answers
// are the types of its handler.
func (s *surface) table() {
	s.sessionRoutes()
	s.bulkRoutes()
	s.execRoutes()
	s.contexts.Routes(s.kit, s.resolveSession)
	s.portRoutes()
	s.networkRoutes()
	s.filesOfSessions()
	s.workspaceRoutes()
	s.secretRoutes()
	s.snapshotRoutes()
	s.imageRoutes()
	s.userRoutes()
	s.scopeRoutes()
	s.auditRoutes()
	s.historyRoutes()
	s.hostRoutes()
	s.eventRoutes()
	s.daemonRoutes()
}

// daemonRoutes are about the daemon as a whole.
func (s *surface) daemonRoutes() {
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/pool/status", Scope: api.Admin,
		Doc: kit.Doc{
			ID: "get-pool-status", Summary: "Get the pool's status", Errors: []int{403},
			Description: "Only for the daemon's own key, for it tells of the sessions of all. What is ready for sessions that are about to come. A session gets a ready sandbox if it asks for an image of the pool with the default disk_mb and readonly_rootfs; whatever else it asks for, it is given on the way.",
		},
	}, s.poolStatus)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/info", Scope: api.Key,
		Doc: kit.Doc{
			ID: "get-info", Summary: "Get the daemon's version and limits",
			Description: "What a client may ask for at most and what it gets if it does not ask.",
		},
	}, s.info)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/agent-tools", Scope: api.Key,
		Doc: kit.Doc{
			ID: "list-agent-tools", Summary: "List the tools for agents",
			Description: "The definitions of the tools that agents call, as a model's API takes them. What they do is done by /mcp, or by a program with the Go package agents/tools.",
		},
	}, s.agentTools)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /healthz", Scope: api.Public,
		Doc: kit.Doc{
			ID: "healthz", Summary: "Is the daemon alive",
			Description: "200 from the moment the daemon listens. Needs no key.",
		},
	}, s.healthz)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /readyz", Scope: api.Public,
		Doc: kit.Doc{
			ID: "readyz", Summary: "Can the daemon work",
			Description: "503 until the sessions of an earlier run of the daemon have been taken up, and while its data_dir cannot be written; error says which. Needs no key.",
		},
	}, s.readyz)
	s.kit.Plain(api.Route{Pattern: "GET /metrics", Scope: api.Admin, Handler: sessionmetrics.Handler(s.opts.Registry)})
	s.kit.Plain(api.Route{Pattern: "GET /openapi.json", Scope: api.Public, Handler: http.HandlerFunc(s.serveOpenAPI)})
}

func atMost(bytes int64) string { return fmt.Sprintf("At most %d bytes.", bytes) }
