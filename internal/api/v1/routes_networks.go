package v1

import (
	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
)

// networkRoutes are those of what sessions may reach.
func (s *surface) networkRoutes() {
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/sessions/{id}/network", Scope: api.Key, Resolve: s.resolveSession,
		Doc: kit.Doc{
			ID: "get-network", Summary: "Get what a session may reach", Errors: []int{404},
			Description: "Its policy, and its secrets without their values. Asking is not activity.",
		},
	}, s.networks.Get)
	kit.Route(s.kit, kit.Row{
		Pattern: "PUT /v1/sessions/{id}/network", Scope: api.Key, Resolve: s.resolveSession,
		Doc: kit.Doc{
			ID: "set-network", Summary: "Replace what a session may reach", Errors: []int{403, 404, 409, 415, 501},
			Description: "The new policy holds when the answer comes; connections that it does not allow are cut. That of a stopped session holds from its start on. What is left out is not kept, but for secrets.",
		},
	}, s.networks.Set)
	kit.Route(s.kit, kit.Row{
		Pattern: "POST /v1/sessions/{id}/network/allow", Scope: api.Key, Resolve: s.resolveSession,
		Doc: kit.Doc{
			ID: "allow-network", Summary: "Let a session reach more", Errors: []int{403, 404, 409, 415, 501},
			Description: "Adds entries to allow. A session of mode none comes to have mode allow.",
		},
	}, s.networks.Allow)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/sessions/{id}/network/log", Scope: api.Key, Resolve: s.resolveSession,
		Doc: kit.Doc{
			ID: "get-network-log", Summary: "Get what a session's network decided", Errors: []int{404},
			Description: "The last 1000 decisions since the session's last start, or the daemon's: name queries, connections and requests, with the entry that decided or what is missing. Asking is not activity.",
		},
	}, s.networks.Log)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/sessions/{id}/network/log/stream", Scope: api.Key, Class: api.Long, Listens: true, Resolve: s.resolveSession,
		Doc: kit.Doc{
			ID: "follow-network-log", Summary: "Follow what a session's network decides", Media: "text/event-stream", Errors: []int{404},
			Example:     exampleNetworkLog,
			Description: "Server-sent events: network for each decision, with its seq as the id, and done when the session has ended. It goes on over a stop and a start. A broken stream is resumed with Last-Event-ID. To follow is not activity.",
		},
	}, s.networks.Follow)
}
