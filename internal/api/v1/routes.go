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

	route(s, "POST /v1/sessions/{id}/exec", api.Key, s.exec)
	route(s, "POST /v1/sessions/{id}/exec/stream", api.Key, s.execStream)
	route(s, "GET /v1/sessions/{id}/exec/stream", api.Key, s.execEvents)
	route(s, "GET /v1/sessions/{id}/execs", api.Key, s.listExecs)
	s.readingCalls("/v1/sessions/{id}/execs/{exec_id}")
	route(s, "POST /v1/sessions/{id}/processes", api.Key, s.startProcess)
	route(s, "POST /v1/sessions/{id}/processes/stream", api.Key, s.processStream)
	route(s, "GET /v1/sessions/{id}/processes", api.Key, s.listProcesses)
	s.readingCalls("/v1/sessions/{id}/processes/{exec_id}")
	route(s, "DELETE /v1/sessions/{id}/processes/{exec_id}", api.Key, s.cancelExec)
	route(s, "GET /v1/sessions/{id}/shells", api.Key, s.listShells)
	route(s, "DELETE /v1/sessions/{id}/shells/{name}", api.Key, s.closeShell)
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

	route(s, "POST /v1/workspaces", api.Key, s.createWorkspace)
	route(s, "GET /v1/workspaces", api.Key, s.listWorkspaces)
	route(s, "GET /v1/workspaces/{id}", api.Key, s.getWorkspace)
	route(s, "DELETE /v1/workspaces/{id}", api.Key, s.deleteWorkspace)
	route(s, "GET /v1/workspaces/{id}/fs/read", api.Key, ofWorkspace(s.readFile))
	route(s, "POST /v1/workspaces/{id}/fs/write", api.Key, ofWorkspace(s.writeFile))
	route(s, "POST /v1/workspaces/{id}/fs/upload", api.Key, ofWorkspace(s.upload))
	route(s, "GET /v1/workspaces/{id}/fs/list", api.Key, ofWorkspace(s.listFiles))

	route(s, "GET /v1/info", api.Key, s.info)
	route(s, "GET /healthz", api.Public, s.healthz)
	route(s, "GET /readyz", api.Public, s.readyz)

	s.plain("GET /metrics", api.Key, s.serveMetrics)
	s.plain("GET /openapi.json", api.Page, s.serveOpenAPI)
	s.plain("GET /docs", api.Page, servePage("index.html"))
	s.plain("GET /docs/page.js", api.Page, servePage("page.js"))
	s.plain("GET /docs/page.css", api.Page, servePage("page.css"))
}

// readingCalls are those of one exec, which may be a shell's command or a
// process: both have them, below their own path.
func (s *surface) readingCalls(exec string) {
	route(s, "GET "+exec, api.Key, s.getExec)
	route(s, "GET "+exec+"/output", api.Key, s.readOutput)
	route(s, "GET "+exec+"/stream", api.Key, s.attachStream)
	route(s, "POST "+exec+"/wait", api.Key, s.waitExec)
	route(s, "POST "+exec+"/stdin", api.Key, s.writeStdin)
	route(s, "POST "+exec+"/signal", api.Key, s.signalExec)
	route(s, "POST "+exec+"/resize", api.Key, s.resizeExec)
	route(s, "POST "+exec+"/cancel", api.Key, s.cancelExec)
}
