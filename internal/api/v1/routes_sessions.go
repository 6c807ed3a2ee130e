package v1

import (
	"net/http"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
)

// sessionRoutes are those of sessions as such.
func (s *surface) sessionRoutes() {
	kit.Route(s.kit, kit.Row{
		Pattern: "POST /v1/sessions", Scope: api.Key,
		Doc: kit.Doc{
			ID: "create-session", Summary: "Create a session", Status: http.StatusCreated, Errors: []int{403, 404, 409, 415, 422, 501, 507},
			Description: "Makes a sandbox and answers when it can run commands. Where max_sessions, a quota or the disk is short, stopped sessions of the same owner that nobody stopped by hand end first, those first that were stopped first. Send an Idempotency-Key to be able to repeat the request safely: the same key with the same body gives the same session, with another body 422. With a key the session is made even if the client goes away; without one it is removed then.",
		},
	}, s.createSession)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/sessions", Scope: api.Key, Turn: true,
		Doc: kit.Doc{
			ID: "list-sessions", Summary: "List sessions", Errors: []int{501},
			Description: "The sessions of this key that have not ended, oldest first, and to an admin those of all owners; owner has one of them. With limit an answer is a page: the cursor of its last session is after of the next one, and a page that is shorter than limit is the last. A session whose place changes meanwhile, as by activity, may be on two pages or none.",
		},
	}, s.listSessions)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/sessions/{id}", Scope: api.Key, Resolve: s.resolveSession,
		Doc: kit.Doc{
			ID: "get-session", Summary: "Get a session", Errors: []int{404},
			Description: "Also of a session that ended not long ago.",
		},
	}, s.getSession)
	kit.Route(s.kit, kit.Row{
		Pattern: "DELETE /v1/sessions/{id}", Scope: api.Key, Resolve: s.resolveSession,
		Doc: kit.Doc{
			ID: "destroy-session", Summary: "Destroy a session", Errors: []int{404},
			Description: "Ends the session's processes and removes its files. Works in every state; to repeat it is no error. An admin destroys those of others, by their ids, and end_reason names the admin.",
		},
	}, s.destroySession)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/sessions/{id}/stats", Scope: api.Key, Resolve: s.resolveSession,
		Doc: kit.Doc{
			ID: "get-stats", Summary: "Get a session's use of resources", Errors: []int{404, 409},
			Description: "Read from outside the sandbox. A value that the host cannot measure is 0. Asking is not activity.",
		},
	}, s.stats)
	kit.Route(s.kit, kit.Row{
		Pattern: "PATCH /v1/sessions/{id}", Scope: api.Key, Resolve: s.resolveSession,
		Doc: kit.Doc{
			ID: "update-session", Summary: "Change a session", Errors: []int{404, 409, 415, 501},
			Description: "How long it may live, what happens when it is idle, and its labels. What is left out stays as it is. This is not activity.",
		},
	}, s.updateSession)
	kit.Route(s.kit, kit.Row{
		Pattern: "POST /v1/sessions/{id}/pause", Scope: api.Key, Resolve: s.resolveSession,
		Doc: kit.Doc{
			ID: "pause-session", Summary: "Pause a session", Errors: []int{404, 409, 415, 501},
			Description: "Stops the session's programs where they are; they keep their memory and cost no processor time. Requests that wait for them go on waiting, and the timeout of a command goes on counting. The next request for a command, file or terminal wakes the session, unless auto_resume is off. To pause what is paused is no error.",
		},
	}, s.pauseSession)
	kit.Route(s.kit, kit.Row{
		Pattern: "POST /v1/sessions/{id}/fork", Scope: api.Key, Resolve: s.resolveSession,
		Doc: kit.Doc{
			ID: "fork-session", Summary: "Fork a session", Status: http.StatusCreated, Errors: []int{404, 409, 415, 422, 501, 507},
			Description: "Makes sessions that begin with this one's files: all that it has written to its root and to a /workspace of its own, as it was at one moment. A workspace that outlives sessions is shared with it. Processes, shells and memory are not copied. The session may be running, paused or stopped, and stays so; its programs stand still until the moment is taken. Each fork has an id, boot id, hostname and machine-id of its own, and the session's image, limits, environment, labels and policy where the request says nothing else. All are made or none. Where the host can share data between files a fork costs what a create does, however much was written, and no disk until it changes something; copied says that it could not.",
		},
	}, s.forkSession)
	kit.Route(s.kit, kit.Row{
		Pattern: "POST /v1/sessions/{id}/resume", Scope: api.Key, Resolve: s.resolveSession,
		Doc: kit.Doc{
			ID: "resume-session", Summary: "Resume a paused session", Errors: []int{404, 409, 501},
			Description: "Its programs go on where they were. To resume what runs is no error.",
		},
	}, s.resumeSession)
	kit.Route(s.kit, kit.Row{
		Pattern: "POST /v1/sessions/{id}/stop", Scope: api.Key, Resolve: s.resolveSession,
		Doc: kit.Doc{
			ID: "stop-session", Summary: "Stop a session", Errors: []int{404, 409, 501},
			Description: "Kills all its processes and keeps its files; commands in progress end with cause sandbox_gone. A stopped session costs disk only, and is kept for stopped_retention_seconds; expires_at in the answer says until when. One that nobody has stopped by this call, as after ttl_seconds, ends before that where another session of its owner needs its room. To stop what is stopped is no error, and has it stay.",
		},
	}, s.stopSession)
	kit.Route(s.kit, kit.Row{
		Pattern: "POST /v1/sessions/{id}/start", Scope: api.Key, Resolve: s.resolveSession,
		Doc: kit.Doc{
			ID: "start-session", Summary: "Start a stopped session", Errors: []int{404, 409, 501, 507},
			Description: "Boots it on its files, with its limits, environment and hostname. boot_id is another, shells are new, and the directory is /workspace. To start what runs is no error.",
		},
	}, s.startSession)
	kit.Route(s.kit, kit.Row{
		Pattern: "POST /v1/sessions/{id}/heartbeat", Scope: api.Key, Resolve: s.resolveSession,
		Doc: kit.Doc{
			ID: "heartbeat", Summary: "Keep a session alive", Errors: []int{404, 409},
			Description: "Counts as activity and does nothing else: it does not wake a paused session.",
		},
	}, s.heartbeat)
}
