package v1

import (
	"context"
	"net/http"
	"strings"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/v1/adapter"
	"github.com/sandkasten/sandkasten/internal/api/v1/files"
	"github.com/sandkasten/sandkasten/internal/api/v1/metrics"
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
	route(s, "POST /v1/sessions/{id}/fork", api.Key, s.forkSession)
	route(s, "POST /v1/sessions/{id}/resume", api.Key, s.resumeSession)
	route(s, "POST /v1/sessions/{id}/stop", api.Key, s.stopSession)
	route(s, "POST /v1/sessions/{id}/start", api.Key, s.startSession)
	route(s, "POST /v1/sessions/{id}/heartbeat", api.Key, s.heartbeat)

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
	route(s, "GET /v1/sessions/{id}/terminal", api.Socket, s.terminal)

	s.fileCalls("/v1/sessions/{id}", s.files)
	route(s, "GET /v1/sessions/{id}/fs/watch", api.Key, s.files.Watch)

	route(s, "GET /v1/sessions/{id}/ports", api.Key, s.listPorts)
	route(s, "POST /v1/sessions/{id}/previews", api.Key, s.createPreview)
	route(s, "GET /v1/sessions/{id}/tunnel", api.Socket, s.tunnel)
	s.register(api.Route{
		Pattern: "/v1/sessions/{id}/ports/{port}/{path...}", Scope: api.Key, Class: api.Long, Ticket: s.portTicket,
		Handler: http.HandlerFunc(s.proxyPort),
	})

	route(s, "POST /v1/workspaces", api.Key, s.createWorkspace)
	route(s, "GET /v1/workspaces", api.Key, s.listWorkspaces)
	route(s, "GET /v1/workspaces/{id}", api.Key, s.getWorkspace)
	route(s, "DELETE /v1/workspaces/{id}", api.Key, s.deleteWorkspace)
	s.fileCalls("/v1/workspaces/{id}", s.workspaceFiles)
	route(s, "GET /v1/workspaces/{id}/fs", api.Key, s.workspaceFiles.List)

	route(s, "GET /v1/pool/status", api.Admin, s.poolStatus)
	route(s, "POST /v1/sessions/{id}/snapshots", api.Key, s.snapshots.Create)
	route(s, "GET /v1/snapshots", api.Key, s.snapshots.List)
	route(s, "POST /v1/snapshots", api.Key, s.snapshots.Upload)
	route(s, "GET /v1/snapshots/{id}", api.Key, s.snapshots.Get)
	route(s, "DELETE /v1/snapshots/{id}", api.Key, s.snapshots.Delete)
	route(s, "GET /v1/snapshots/{id}/download", api.Key, s.snapshots.Download)

	route(s, "GET /v1/images", api.Key, s.images.List)
	route(s, "GET /v1/images/{image}", api.Key, s.images.Get)
	route(s, "DELETE /v1/images/{image}", api.Admin, s.images.Delete)
	route(s, "POST /v1/images/pull", api.Admin, s.images.Pull)
	route(s, "POST /v1/images/build", api.Admin, s.images.Build)
	route(s, "POST /v1/images/commit", api.Admin, s.images.Commit)
	route(s, "POST /v1/images/import", api.Admin, s.images.Import)
	route(s, "GET /v1/image-jobs", api.Admin, s.images.ListJobs)
	route(s, "GET /v1/image-jobs/{id}", api.Admin, s.images.GetJob)
	route(s, "GET /v1/image-jobs/{id}/events", api.Admin, s.images.JobEvents)
	route(s, "DELETE /v1/image-jobs/{id}", api.Admin, s.images.CancelJob)

	route(s, "GET /v1/info", api.Key, s.info)
	route(s, "GET /healthz", api.Public, s.healthz)
	route(s, "GET /readyz", api.Public, s.readyz)

	s.plain("GET /metrics", api.Admin, metrics.Handler(s.opts.Registry))
	s.plain("GET /openapi.json", api.Public, s.serveOpenAPI)
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

// fileCalls are those that the files of a session and of a workspace have in
// common.
func (s *surface) fileCalls(of string, h *files.Handlers) {
	route(s, "GET "+of+"/fs/read", api.Key, h.Read)
	route(s, "POST "+of+"/fs/write", api.Key, h.Write)
	route(s, "PUT "+of+"/fs/raw", api.Key, h.WriteRaw)
	route(s, "POST "+of+"/fs/upload", api.Key, h.Upload)
	route(s, "GET "+of+"/fs/list", api.Key, h.List)
	route(s, "GET "+of+"/fs/stat", api.Key, h.Stat)
	route(s, "POST "+of+"/fs/mkdir", api.Key, h.Mkdir)
	route(s, "POST "+of+"/fs/move", api.Key, h.Move)
	route(s, "POST "+of+"/fs/copy", api.Key, h.Copy)
	route(s, "POST "+of+"/fs/delete", api.Key, h.Delete)
	route(s, "POST "+of+"/fs/chmod", api.Key, h.Chmod)
	route(s, "POST "+of+"/fs/edit", api.Key, h.Edit)
	route(s, "GET "+of+"/fs/glob", api.Key, h.Glob)
	route(s, "GET "+of+"/fs/grep", api.Key, h.Grep)
	route(s, "GET "+of+"/fs/archive", api.Key, h.Pack)
	route(s, "PUT "+of+"/fs/archive", api.Key, h.Unpack)
}

// route registers one endpoint under its documentation.
func route[I, O any](s *surface, pattern string, scope api.Scope, handle func(context.Context, *I) (*O, error)) {
	adapter.Register(s.huma, adapter.With(s.operation(pattern, scope), scope, classOf(pattern)), handle)
}

// classOf is what a route's requests wait for. The rest are short.
func classOf(pattern string) api.Class {
	for _, end := range []string{
		"/exec", "/exec/stream", "/{exec_id}", "/{exec_id}/stream", "/{exec_id}/wait", "/processes/stream",
		"POST /v1/sessions/{id}/processes", "/terminal", "/tunnel", "/fs/watch", "/image-jobs/{id}/events",
	} {
		if strings.HasSuffix(pattern, end) && !strings.HasPrefix(pattern, "DELETE ") {
			return api.Long
		}
	}
	for _, end := range []string{"/fs/raw", "/fs/upload", "/fs/archive", "POST /v1/snapshots", "POST /v1/sessions/{id}/snapshots", "/download", "/images/import"} {
		if strings.HasSuffix(pattern, end) {
			return api.Transfer
		}
	}
	return api.Short
}
