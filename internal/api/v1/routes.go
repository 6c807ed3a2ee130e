package v1

import (
	"net/http"

	"github.com/sandkasten/sandkasten/internal/api"
)

// table is the whole contract: every route with what its caller must show.
// What each one takes and answers is in operations.go and in its handler.
func (s *surface) table() {
	route(s, "POST /v1/sessions", api.Key, s.createSession)
	route(s, "GET /v1/sessions", api.Key, s.listSessions)
	route(s, "GET /v1/sessions/{id}", api.Key, s.getSession)
	route(s, "DELETE /v1/sessions/{id}", api.Key, s.destroySession)
	route(s, "GET /v1/sessions/{id}/stats", api.Key, s.stats)

	route(s, "PATCH /v1/sessions/{id}", api.Key, s.updateSession)
	route(s, "POST /v1/sessions/{id}/pause", api.Key, s.pauseSession)
	route(s, "POST /v1/sessions/{id}/resume", api.Key, s.resumeSession)
	route(s, "POST /v1/sessions/{id}/stop", api.Key, s.stopSession)
	route(s, "POST /v1/sessions/{id}/start", api.Key, s.startSession)
	route(s, "POST /v1/sessions/{id}/heartbeat", api.Key, s.heartbeat)

	route(s, "POST /v1/sessions/{id}/exec", api.Key, s.exec)
	route(s, "POST /v1/sessions/{id}/exec/stream", api.Key, s.execStream)
	route(s, "GET /v1/sessions/{id}/execs", api.Key, s.listExecs)
	route(s, "GET /v1/sessions/{id}/execs/{exec_id}", api.Key, s.getExec)
	route(s, "GET /v1/sessions/{id}/execs/{exec_id}/stream", api.Key, s.attachStream)
	route(s, "POST /v1/sessions/{id}/execs/{exec_id}/cancel", api.Key, s.cancelExec)
	route(s, "GET /v1/sessions/{id}/terminal", api.Key, s.terminal)

	route(s, "GET /v1/sessions/{id}/fs/read", api.Key, s.readFile)
	route(s, "POST /v1/sessions/{id}/fs/write", api.Key, s.writeFile)
	route(s, "POST /v1/sessions/{id}/fs/upload", api.Key, s.upload)
	route(s, "GET /v1/sessions/{id}/fs/list", api.Key, s.listFiles)

	route(s, "GET /v1/sessions/{id}/ports", api.Key, s.listPorts)
	route(s, "POST /v1/sessions/{id}/previews", api.Key, s.createPreview)
	route(s, "GET /v1/sessions/{id}/tunnel", api.Key, s.tunnel)
	s.routes = append(s.routes, api.Route{
		Pattern: "/v1/sessions/{id}/ports/{port}/{path...}", Scope: api.Key, Ticket: s.portTicket,
		Handler: http.HandlerFunc(s.proxyPort),
	})

	route(s, "GET /v1/info", api.Key, s.info)
	route(s, "GET /healthz", api.Public, s.healthz)
	route(s, "GET /readyz", api.Public, s.readyz)

	s.plain("GET /metrics", api.Key, s.serveMetrics)
	s.plain("GET /openapi.json", api.Page, s.serveOpenAPI)
	s.plain("GET /docs", api.Page, servePage("index.html"))
	s.plain("GET /docs/page.js", api.Page, servePage("page.js"))
	s.plain("GET /docs/page.css", api.Page, servePage("page.css"))
}
