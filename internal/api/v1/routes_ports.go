package v1

import (
	"net/http"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
)

// portRoutes are those of the ports and terminals of sessions.
func (s *surface) portRoutes() {
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/sessions/{id}/terminal", Scope: api.Socket, Class: api.Long, Acts: true, Resolve: s.resolveSession,
		Doc: kit.Doc{
			ID: "open-terminal", Summary: "Open an interactive terminal", Status: http.StatusSwitchingProtocols, Errors: []int{404, 409, 422},
			Description: `A WebSocket. Binary messages are what is typed and what is shown. Text messages are JSON. The daemon's first is {"started":{"terminal_id":"...","reattached":false,"seq":0}}; {"dropped":{"bytes":100}} says that so much of what comes next is not kept any more; {"exit":{"exit_code":0,"cause":"exited"}} is its last before it closes. The client may send {"resize":{"rows":24,"cols":80}}. A message may have 1 MiB. When the WebSocket closes, the terminal lives on for a time that the daemon's configuration says, and terminal_id attaches to it again: with scrollback, or exactly where it was with since_seq, the seq of started and as many bytes as came since. Any number may be attached. A terminal is a process: the paths below execs work for it.`,
		},
	}, s.terminal)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/sessions/{id}/ports", Scope: api.Key, Resolve: s.resolveSession,
		Doc: kit.Doc{
			ID: "list-ports", Summary: "List listening ports", Errors: []int{404, 409},
			Description: "The TCP ports on which programs in the session listen, by number. Any of them, listed or not yet, can be reached with HTTP and WebSocket, with any method, at its url: /v1/sessions/{id}/ports/{port}/ and what follows, or a host of its own. The answer there is the program's, or one of ours: 502 (bad_gateway) if nothing listens or what does speaks no HTTP, 504 (gateway_timeout) if it does not answer. Asking for the list is not activity.",
		},
	}, s.listPorts)
	kit.Route(s.kit, kit.Row{
		Pattern: "POST /v1/sessions/{id}/previews", Scope: api.Key, Resolve: s.resolveSession,
		Doc: kit.Doc{
			ID: "create-preview", Summary: "Make a token that opens one port", Status: http.StatusCreated, Errors: []int{404, 409, 415},
			Description: "For a browser, or somebody who has no key. The token opens this port of this session and nothing else, until it expires or the session ends. It cannot be taken back otherwise. What keeps it is the caller's to protect, like a key.",
		},
	}, s.createPreview)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/sessions/{id}/tunnel", Scope: api.Socket, Class: api.Long, Acts: true, Resolve: s.resolveSession,
		Doc: kit.Doc{
			ID: "open-tunnel", Summary: "Connect to a port", Status: http.StatusSwitchingProtocols, Errors: []int{404, 409},
			Description: "A WebSocket that is a TCP connection to a port of the session. Binary messages of any size up to 1 MiB are its bytes, in both directions; an empty one says that no more come in that direction. Any port is reached, of any protocol over TCP.",
		},
	}, s.tunnel)
	s.kit.Plain(api.Route{
		Pattern: "/v1/sessions/{id}/ports/{port}/{path...}", Scope: api.Key, Class: api.Long, Acts: true, Ticket: s.portTicket, Foreign: true,
		Resolve: s.resolveSession, Handler: http.HandlerFunc(s.proxyPort),
	})
}
