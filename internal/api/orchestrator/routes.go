package orchestrator

import (
	"github.com/danielgtaylor/huma/v2"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
)

// key is the row of a route below prefix that takes a key.
func (s *surface) key(method, path string, class api.Class, doc kit.Doc) kit.Row {
	row := kit.Row{Pattern: method + " " + prefix + path, Scope: api.Key, Class: class, MaxBody: s.opts.BodyBytes, Doc: doc}
	if class == api.Long { // the daemon holds it for as long as a program runs
		row.MaxBody = min(row.MaxBody, kit.DefaultBody)
	}
	return row
}

// listing is a row of what lists.
func listing(row kit.Row) kit.Row {
	row.Turn = true
	return row
}

// found is key of a session, which is looked for before the body is read.
func (s *surface) found(method, path string, class api.Class, doc kit.Doc) kit.Row {
	row := s.key(method, path, class, doc)
	row.Prepare = s.findSession
	return row
}

// withoutLimit is a row whose handler bounds the body itself.
func withoutLimit(row kit.Row) kit.Row {
	row.MaxBody = kit.NoLimit
	return row
}

// answers is one answer of JSON.
func answers[T any](status int, means string, example any) map[int]kit.Answer {
	return map[int]kit.Answer{status: {Means: means, Content: []kit.Media{kit.JSON[T](example)}}}
}

// form is a body of JSON, or a form with the same fields.
func form[T any]() *kit.Body {
	return &kit.Body{Means: "JSON; a form with the same fields is taken, too.", Content: []kit.Media{kit.JSON[T](nil)}}
}

var (
	// usable are the errors of what begins a session anew if need be.
	usable      = []int{404, 501, 507}
	usableWrite = append([]int{415}, usable...)

	nothing = map[int]kit.Answer{204: {Means: "Done, or it was so already."}}
)

// whatEndKeeps is of every end of a session.
const whatEndKeeps = "Files that cannot be saved now are kept with the sandbox, metadata.unsaved is true, and the daemon saves them later; the next use goes on with them."

var exampleRan = map[string]any{"exit_code": 0, "stdout": "hi\n", "stderr": "", "duration_sec": 0.012}

// addRoutes adds the whole API.
func (s *surface) addRoutes() {
	s.sessionRoutes()
	s.fileRoutes()
	s.snapshotRoutes()
	s.desktopRoutes()
	if s.opts.Accounts != nil {
		s.userRoutes()
		s.keyRoutes()
	}
}

func (s *surface) sessionRoutes() {
	kit.Route(s.kit, listing(s.key("GET", "sessions", api.Short, kit.Doc{
		ID: "list-sessions", Summary: "List sessions", Answers: answers[[]sessionView](200, "Newest first.", nil),
	})), s.list)
	kit.Route(s.kit, s.key("POST", "sessions", api.Long, kit.Doc{
		ID: "create-session", Summary: "Create a session, or find it ready", Status: 201, Errors: usableWrite,
		Answers: map[int]kit.Answer{
			201: {Means: "It was made, or begun anew with its files.", Content: []kit.Media{kit.JSON[sessionView](nil)}},
			200: {Means: "It was ready.", Content: []kit.Media{kit.JSON[sessionView](nil)}},
		},
		Description: "A session that has ended begins anew with the files of its latest snapshot, and is ready only with them.",
	}), s.create)
	kit.Route(s.kit, s.found("GET", "sessions/{id}", api.Short, kit.Doc{
		ID: "get-session", Summary: "Get a session", Errors: []int{404}, Answers: answers[sessionView](200, "As it is.", nil),
	}), s.get)
	kit.Route(s.kit, s.key("DELETE", "sessions/{id}", api.Long, kit.Doc{
		ID: "delete-session", Summary: "End a session", Status: 204, Errors: []int{404, 507}, Answers: nothing,
		Description: "The same as stop: its files are saved, and its row stays. " + whatEndKeeps,
	}), s.stop)
	kit.Route(s.kit, s.key("POST", "sessions/{id}/stop", api.Long, kit.Doc{
		ID: "stop-session", Summary: "Save a session's files and end it", Status: 204, Errors: []int{404, 507}, Answers: nothing, Description: whatEndKeeps,
	}), s.stop)
	kit.Route(s.kit, s.key("POST", "sessions/{id}/heartbeat", api.Short, kit.Doc{
		ID: "heartbeat", Summary: "Keep a session from being idle", Errors: []int{404}, Answers: answers[beat](200, "Whatever its status is.", nil),
	}), s.heartbeat)
	kit.Route(s.kit, s.found("POST", "sessions/{id}/exec", api.Long, commandDoc("exec", "Run a command")), s.exec)
	kit.Route(s.kit, s.found("POST", "sessions/{id}/shell", api.Long, commandDoc("shell", "Run a command, as exec does")), s.exec)
}

// commandDoc is of what exec and shell do.
func commandDoc(id, summary string) kit.Doc {
	return kit.Doc{
		ID: id, Summary: summary, Errors: usableWrite, Answers: answers[ran](200, "It ran.", exampleRan),
		Description: "By sh. A session that is not ready begins anew before, with its files.",
	}
}

func (s *surface) fileRoutes() {
	kit.Route(s.kit, s.found("POST", "sessions/{id}/upload", api.Transfer, kit.Doc{
		ID: "upload", Summary: "Write a text or bytes to a file", Errors: usableWrite,
		Answers:     answers[ran](200, "Written if exit_code is 0.", exampleRan),
		Description: "The content is kept byte for byte.",
	}), s.write)
	kit.Route(s.kit, withoutLimit(s.found("POST", "sessions/{id}/files/upload", api.Transfer, kit.Doc{
		ID: "upload-file", Summary: "Write a body to a file", Errors: usable,
		Body: &kit.Body{Means: "Bytes of any type. Of a form, the first file.", Content: []kit.Media{
			kit.Bytes("application/octet-stream"), kit.Form(map[string]*huma.Schema{"file": {Type: huma.TypeString, Format: "binary"}}),
		}},
		Answers: answers[ran](200, "Written if exit_code is 0.", exampleRan),
	})), s.upload)
	kit.Route(s.kit, s.found("GET", "sessions/{id}/files/content", api.Transfer, kit.Doc{
		ID: "download-file", Summary: "Read a file", Errors: usable,
		Answers:     map[int]kit.Answer{200: {Means: "Its bytes.", Content: []kit.Media{kit.Bytes("application/octet-stream")}}},
		Description: "A file that is not there is a bad request.",
	}), s.content)
	kit.Route(s.kit, s.found("POST", "sessions/{id}/files/export", api.Transfer, kit.Doc{
		ID: "export-file", Summary: "Keep a file as an artifact", Status: 201, Errors: usableWrite,
		Answers:     answers[artifactView](201, "Kept. The link works for a while; the list of artifacts has new ones.", nil),
		Description: "The copy is outside the sandbox and outlives it. A file that is not there is a bad request.",
	}), s.export)
	kit.Route(s.kit, listing(s.found("GET", "sessions/{id}/artifacts", api.Short, kit.Doc{
		ID: "list-artifacts", Summary: "List a session's artifacts", Errors: []int{404}, Answers: answers[artifactList](200, "Newest first.", nil),
	})), s.artifacts)
	download := s.key("GET", "artifacts/{artifact}/download", api.Transfer, kit.Doc{
		ID: "download-artifact", Summary: "Read an artifact", Errors: []int{404},
		Answers:     map[int]kit.Answer{200: {Means: "Its bytes.", Content: []kit.Media{kit.Bytes("*/*")}}},
		Description: "download_url leads here, with a signature that stands for the key, if artifacts are kept by the daemon itself.",
	})
	download.Ticket = s.linkTicket
	kit.Route(s.kit, download, s.download)
}

func (s *surface) snapshotRoutes() {
	kit.Route(s.kit, s.found("POST", "sessions/{id}/snapshot", api.Long, snapshotDoc("snapshot")), s.snapshot)
	kit.Route(s.kit, s.found("POST", "sessions/{id}/snapshots", api.Long, snapshotDoc("create-snapshot")), s.snapshot)
	kit.Route(s.kit, listing(s.key("GET", "sessions/{id}/snapshots", api.Short, kit.Doc{
		ID: "list-snapshots", Summary: "List a session's snapshots", Errors: []int{404}, Answers: answers[snapshotList](200, "Newest first.", nil),
		Description: "It begins no session anew.",
	})), s.snapshots)
	kit.Route(s.kit, s.key("GET", "sessions/{id}/snapshots/{snapshot}", api.Short, kit.Doc{
		ID: "get-snapshot", Summary: "Get a snapshot", Errors: []int{404}, Answers: answers[snapshotView](200, "As it is.", nil),
	}), s.getSnapshot)
}

// snapshotDoc is of both paths that take one.
func snapshotDoc(id string) kit.Doc {
	return kit.Doc{
		ID: id, Summary: "Save a session's files", Status: 201, Errors: usableWrite,
		Answers:     answers[snapshotView](201, "It is saved.", nil),
		Description: "The session begins with the latest of its snapshots when it begins anew.",
	}
}

// desktopRoutes are of what this daemon does not have.
func (s *surface) desktopRoutes() {
	for _, one := range []struct{ method, path, id, summary, says string }{
		{"POST", "input/mouse", "mouse", "Move the mouse of a desktop", "Mouse input not yet implemented in the sandbox daemon"},
		{"POST", "input/keyboard", "keyboard", "Type on a desktop", "Keyboard input not yet implemented in the sandbox daemon"},
		{"GET", "screenshot", "screenshot", "See a desktop", "Screenshots require a desktop in the sandbox"},
		{"GET", "stream/view", "view", "Watch a desktop", "Live view streaming requires sandbox daemon integration"},
	} {
		kit.Route(s.kit, s.found(one.method, "sessions/{id}/"+one.path, api.Short, kit.Doc{
			ID: one.id, Summary: one.summary, Status: 501, Errors: []int{404, 501}, Description: "This daemon answers 501 for a session that there is.",
		}), absent(one.says))
	}
}

// account is the row of a route of users and keys, which are those of /v1.
func account(pattern string, scope api.Scope, doc kit.Doc) kit.Row {
	return kit.Row{Pattern: pattern, Scope: scope, Class: api.Short, MaxBody: maxForm, Doc: doc}
}

func (s *surface) userRoutes() {
	kit.Route(s.kit, account("POST /api/auth/login", api.Open, kit.Doc{
		ID: "login", Summary: "Sign in with a password", Errors: []int{401, 415}, Body: form[loginFields](), Answers: answers[userView](200, "The cookies sessionid and csrftoken are set.", nil),
		Description: "The cookie is for paths below /api/. What changes something takes the token in X-CSRFToken, too.",
	}), s.login)
	kit.Route(s.kit, account("POST /api/auth/logout", api.SignedIn, kit.Doc{ID: "logout", Summary: "Sign out", Status: 204, Answers: nothing}), s.logout)
	register := account("POST /api/auth/register", api.Open, kit.Doc{
		ID: "register", Summary: "Make a user for oneself", Status: 201, Errors: []int{409, 415}, Body: form[registerFields](), Answers: answers[userView](201, "Made.", nil),
		Description: "403 unless orchestrator.registration is set.",
	})
	register.Prepare = s.registrationOpen
	kit.Route(s.kit, register, s.register)
	kit.Route(s.kit, account("GET /api/auth/me", api.Key, kit.Doc{ID: "me", Summary: "See who asks", Answers: answers[userView](200, "The user, or the owner of the key.", nil)}), s.me)
	kit.Route(s.kit, account("GET /api/auth/csrf", api.Open, kit.Doc{ID: "csrf", Summary: "Set the cookie csrftoken again", Status: 204, Answers: nothing}), s.csrf)
	kit.Route(s.kit, account("GET /api/auth/settings", api.Open, kit.Doc{
		ID: "settings", Summary: "See how users are made and sign in", Answers: answers[settingsView](200, "As it is.", nil),
	}), s.settings)
}

func (s *surface) keyRoutes() {
	kit.Route(s.kit, account("POST /api/api-keys", api.Key, kit.Doc{
		ID: "create-key", Summary: "Make a key", Status: 201, Errors: []int{409, 415}, Body: form[keyFields](), Answers: answers[newKeyView](201, "The key is told here and nowhere else.", nil),
	}), s.createKey)
	kit.Route(s.kit, listing(account("GET /api/api-keys", api.Key, kit.Doc{ID: "list-keys", Summary: "List the caller's keys", Answers: answers[[]keyView](200, "Newest first.", nil)})), s.listKeys)
	kit.Route(s.kit, account("DELETE /api/api-keys/{key}", api.Key, kit.Doc{ID: "revoke-key", Summary: "End a key", Status: 204, Errors: []int{404}, Answers: nothing}), s.revokeKey)
}
