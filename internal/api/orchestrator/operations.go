package orchestrator

import (
	"github.com/danielgtaylor/huma/v2"

	"github.com/sandkasten/sandkasten/internal/api/kit"
)

// operation is what the document says of one route.
type operation struct {
	parameters func(*kit.Surface, kit.Row) // of its path and query
	doc        kit.Doc
}

// The parameters of paths and queries.
type (
	noParameters struct{}

	// SessionPath is exported because the library finds no embedded fields otherwise.
	SessionPath struct {
		ID string `path:"id" doc:"The session's UUID, or the id that it has in /v1." example:"6f1c1c9e-4b43-4d25-9f0e-2f6f4a0c0a11"`
	}

	ofEnd struct {
		SessionPath

		Force bool `query:"force" doc:"End it without saving its files, and remove those that an earlier end could not save. Without it, files that cannot be saved are kept."`
	}

	ofSnapshot struct {
		SessionPath

		Snapshot string `path:"snapshot" doc:"The snapshot's UUID." example:"0d9c3f2e-7c1b-4f0a-8a55-3f0f7f4a1b22"`
	}

	ofArtifact struct {
		Artifact  string `path:"artifact" doc:"The artifact's UUID." example:"4f0e8c1a-2d57-4b1e-9c55-0a6f3f7f4b22"`
		Expires   string `query:"expires" doc:"Of a link: when it ends."`
		Key       string `query:"key" doc:"Of a link: the id of the key or sign-in that it was made with, with which it ends."`
		Signature string `query:"signature" doc:"Of a link."`
	}

	ofKey struct {
		Key string `path:"key" doc:"The key's id." example:"cqz3fkq5yr7x2m4n6p8s9t1v3w"`
	}

	ofUpload struct {
		SessionPath

		Path string `query:"path" required:"true" minLength:"1" doc:"Where the file goes. Relative paths begin at /workspace." example:"/workspace/data.csv"`
	}

	ofDownload struct {
		SessionPath

		Path     string `query:"path" required:"true" minLength:"1" doc:"Of the file. Relative paths begin at /workspace." example:"/workspace/data.csv"`
		Filename string `query:"filename" doc:"Its name in Content-Disposition; the last part of path without it." example:"report.csv"`
	}
)

// whatEndKeeps is of every end of a session.
const whatEndKeeps = "Files that cannot be saved now are kept with the sandbox, metadata.unsaved is true, and the daemon saves them later; the next use goes on with them."

// The fields of requests, which handlers read one by one.
type (
	createFields struct {
		ID               string         `json:"id,omitempty" format:"uuid" doc:"Of a session that there is, or of a new one. Without it, a new one's is chosen." example:"6f1c1c9e-4b43-4d25-9f0e-2f6f4a0c0a11"`
		Mode             string         `json:"mode,omitempty" enum:"docker,native,k8s" doc:"Without it, orchestrator.default_mode of the configuration." example:"native"`
		Image            string         `json:"image,omitempty" example:"base"`
		CPU              string         `json:"cpu,omitempty" doc:"Cores, as 2, 0.5 or 500m." example:"500m"`
		Memory           string         `json:"memory,omitempty" doc:"As 512Mi or 2Gi." example:"512Mi"`
		EphemeralStorage string         `json:"ephemeral_storage,omitempty" doc:"As memory." example:"1Gi"`
		RestoreSnapshot  string         `json:"restore_snapshot_id,omitempty" format:"uuid" doc:"The snapshot that it begins with, if it is not ready; its latest without it." example:"0d9c3f2e-7c1b-4f0a-8a55-3f0f7f4a1b22"`
		IdleTimeout      int64          `json:"idle_timeout_sec,omitempty" minimum:"60" maximum:"315360000" doc:"At most max_lifetime_sec." example:"300"`
		MaxLifetime      int64          `json:"max_lifetime_sec,omitempty" minimum:"300" maximum:"315360000" example:"3600"`
		Metadata         map[string]any `json:"metadata,omitempty" doc:"The client's own." example:"{\"task\":42}"`
	}

	execFields struct {
		Command       commandLine `json:"command"`
		Cwd           string      `json:"cwd,omitempty" doc:"Without it, /workspace." example:"/workspace/src"`
		Timeout       int64       `json:"timeout_sec,omitempty" minimum:"1" doc:"At most what the daemon allows, which is also what holds without it. Then the exit code is 124." example:"60"`
		CaptureStdout bool        `json:"capture_stdout,omitempty" doc:"Without it, true."`
		CaptureStderr bool        `json:"capture_stderr,omitempty" doc:"Without it, true."`
	}

	uploadFields struct {
		Path     string `json:"path" minLength:"1" doc:"Directories of it are made." example:"/workspace/main.py"`
		Content  string `json:"content" example:"print(1)\n"`
		Encoding string `json:"encoding,omitempty" enum:"utf-8,base64" doc:"Of content; without it, utf-8."`
	}

	snapshotFields struct {
		Label   string   `json:"label,omitempty" example:"before the upgrade"`
		Include []string `json:"include_paths,omitempty" nullable:"false" doc:"What is saved; without it, /workspace." example:"[\"/workspace/src\"]"`
		Exclude []string `json:"exclude_paths,omitempty" nullable:"false" example:"[\"node_modules\"]"`
	}

	loginFields struct {
		Username string `json:"username" minLength:"1" example:"alice"`
		Password string `json:"password" minLength:"1" example:"correct horse battery"`
	}

	registerFields struct {
		Username string `json:"username" minLength:"1" example:"alice"`
		Email    string `json:"email,omitempty" example:"alice@example.net"`
		Password string `json:"password" minLength:"8" example:"correct horse battery"`
	}

	keyFields struct {
		Name string `json:"name" minLength:"1" maxLength:"255" example:"laptop"`
	}

	exportFields struct {
		Path        string `json:"path" minLength:"1" doc:"Relative paths begin at /workspace." example:"/workspace/report.pdf"`
		Filename    string `json:"filename,omitempty" doc:"Of the download; the last part of path without it. At most 255 bytes, no control characters." example:"report.pdf"`
		ContentType string `json:"content_type,omitempty" doc:"A media type; without it, application/octet-stream. At most 255 bytes." example:"application/pdf"`
	}
)

// body is a body of JSON.
func body[T any](example any) *kit.Body { return &kit.Body{Content: []kit.Media{kit.JSON[T](example)}} }

// form is a body of JSON, or a form with the same fields.
func form[T any]() *kit.Body {
	return &kit.Body{Means: "JSON; a form with the same fields is taken, too.", Content: []kit.Media{kit.JSON[T](nil)}}
}

// optional is a body that may be left out.
func optional(b *kit.Body) *kit.Body {
	b.Optional = true
	return b
}

// answers is one answer of JSON.
func answers[T any](status int, means string, example any) map[int]kit.Answer {
	return map[int]kit.Answer{status: {Means: means, Content: []kit.Media{kit.JSON[T](example)}}}
}

// also adds an answer.
func also(all map[int]kit.Answer, status int, answer kit.Answer) map[int]kit.Answer {
	all[status] = answer
	return all
}

var (
	// usable are the errors of what begins a session anew if need be.
	usable      = []int{404, 501, 507}
	usableWrite = append([]int{415}, usable...)

	nothing = map[int]kit.Answer{204: {Means: "Done, or it was so already."}}
)

var exampleRan = map[string]any{"exit_code": 0, "stdout": "hi\n", "stderr": "", "duration_sec": 0.012}

// shell is what exec and shell do.
func commandDoc(id, summary string) kit.Doc {
	return kit.Doc{
		ID: id, Summary: summary, Errors: usableWrite, Body: body[execFields](nil), Answers: answers[ran](200, "It ran.", exampleRan),
		Description: "By sh. A session that is not ready begins anew before, with its files.",
	}
}

// absentDoc is of what this daemon does not have.
func absentDoc(id, summary string) kit.Doc {
	return kit.Doc{ID: id, Summary: summary, Status: 501, Errors: []int{404, 501}, Description: "This daemon answers 501 for a session that there is."}
}

// snapshotDoc is of both paths that take one.
func snapshotDoc(id string) kit.Doc {
	return kit.Doc{
		ID: id, Summary: "Save a session's files", Status: 201, Errors: usableWrite, Body: optional(body[snapshotFields](nil)),
		Answers:     answers[snapshotView](201, "It is saved.", nil),
		Description: "The session begins with the latest of its snapshots when it begins anew.",
	}
}

// operations are what the document says of routes, by method and path. A new route
// gets an entry here, or a test fails.
var operations = map[string]operation{
	"GET sessions": {kit.Describe[noParameters], kit.Doc{
		ID: "list-sessions", Summary: "List sessions", Answers: answers[[]sessionView](200, "Newest first.", nil),
	}},
	"POST sessions": {kit.Describe[noParameters], kit.Doc{
		ID: "create-session", Summary: "Create a session, or find it ready", Status: 201, Errors: usableWrite, Body: optional(body[createFields](nil)),
		Answers: also(answers[sessionView](201, "It was made, or begun anew with its files.", nil), 200, kit.Answer{
			Means: "It was ready.", Content: []kit.Media{kit.JSON[sessionView](nil)},
		}),
		Description: "A session that has ended begins anew with the files of its latest snapshot, and is ready only with them.",
	}},
	"GET sessions/{id}": {kit.Describe[SessionPath], kit.Doc{
		ID: "get-session", Summary: "Get a session", Errors: []int{404}, Answers: answers[sessionView](200, "As it is.", nil),
	}},
	"DELETE sessions/{id}": {kit.Describe[ofEnd], kit.Doc{
		ID: "delete-session", Summary: "End a session", Status: 204, Errors: []int{404, 507}, Answers: nothing,
		Description: "The same as stop: its files are saved, and its row stays. " + whatEndKeeps,
	}},
	"POST sessions/{id}/stop": {kit.Describe[ofEnd], kit.Doc{
		ID: "stop-session", Summary: "Save a session's files and end it", Status: 204, Errors: []int{404, 507}, Answers: nothing, Description: whatEndKeeps,
	}},
	"POST sessions/{id}/heartbeat": {kit.Describe[SessionPath], kit.Doc{
		ID: "heartbeat", Summary: "Keep a session from being idle", Errors: []int{404}, Answers: answers[beat](200, "Whatever its status is.", nil),
	}},

	"POST sessions/{id}/exec":  {kit.Describe[SessionPath], commandDoc("exec", "Run a command")},
	"POST sessions/{id}/shell": {kit.Describe[SessionPath], commandDoc("shell", "Run a command, as exec does")},

	"POST sessions/{id}/upload": {kit.Describe[SessionPath], kit.Doc{
		ID: "upload", Summary: "Write a text or bytes to a file", Errors: usableWrite, Body: body[uploadFields](nil),
		Answers:     answers[ran](200, "Written if exit_code is 0.", exampleRan),
		Description: "The content is kept byte for byte.",
	}},
	"POST sessions/{id}/files/upload": {kit.Describe[ofUpload], kit.Doc{
		ID: "upload-file", Summary: "Write a body to a file", Errors: usable,
		Body: &kit.Body{Means: "Bytes of any type. Of a form, the first file.", Content: []kit.Media{
			kit.Bytes("application/octet-stream"), kit.Form(map[string]*huma.Schema{"file": {Type: huma.TypeString, Format: "binary"}}),
		}},
		Answers: answers[ran](200, "Written if exit_code is 0.", exampleRan),
	}},
	"GET sessions/{id}/files/content": {kit.Describe[ofDownload], kit.Doc{
		ID: "download-file", Summary: "Read a file", Errors: usable,
		Answers:     map[int]kit.Answer{200: {Means: "Its bytes.", Content: []kit.Media{kit.Bytes("application/octet-stream")}}},
		Description: "A file that is not there is a bad request.",
	}},
	"POST sessions/{id}/files/export": {kit.Describe[SessionPath], kit.Doc{
		ID: "export-file", Summary: "Keep a file as an artifact", Errors: usableWrite, Body: body[exportFields](nil),
		Answers:     answers[artifactView](201, "Kept. The link works for a while; the list of artifacts has new ones.", nil),
		Description: "The copy is outside the sandbox and outlives it. A file that is not there is a bad request.",
	}},
	"GET sessions/{id}/artifacts": {kit.Describe[SessionPath], kit.Doc{
		ID: "list-artifacts", Summary: "List a session's artifacts", Errors: []int{404}, Answers: answers[artifactList](200, "Newest first.", nil),
	}},

	"GET artifacts/{artifact}/download": {kit.Describe[ofArtifact], kit.Doc{
		ID: "download-artifact", Summary: "Read an artifact", Errors: []int{404},
		Answers:     map[int]kit.Answer{200: {Means: "Its bytes.", Content: []kit.Media{kit.Bytes("*/*")}}},
		Description: "download_url leads here, with a signature that stands for the key, if artifacts are kept by the daemon itself.",
	}},

	"POST sessions/{id}/snapshot":  {kit.Describe[SessionPath], snapshotDoc("snapshot")},
	"POST sessions/{id}/snapshots": {kit.Describe[SessionPath], snapshotDoc("create-snapshot")},
	"GET sessions/{id}/snapshots": {kit.Describe[SessionPath], kit.Doc{
		ID: "list-snapshots", Summary: "List a session's snapshots", Errors: []int{404}, Answers: answers[snapshotList](200, "Newest first.", nil),
		Description: "It begins no session anew.",
	}},
	"GET sessions/{id}/snapshots/{snapshot}": {kit.Describe[ofSnapshot], kit.Doc{
		ID: "get-snapshot", Summary: "Get a snapshot", Errors: []int{404}, Answers: answers[snapshotView](200, "As it is.", nil),
	}},

	"POST sessions/{id}/input/mouse":    {kit.Describe[SessionPath], absentDoc("mouse", "Move the mouse of a desktop")},
	"POST sessions/{id}/input/keyboard": {kit.Describe[SessionPath], absentDoc("keyboard", "Type on a desktop")},
	"GET sessions/{id}/screenshot":      {kit.Describe[SessionPath], absentDoc("screenshot", "See a desktop")},
	"GET sessions/{id}/stream/view":     {kit.Describe[SessionPath], absentDoc("view", "Watch a desktop")},

	// Users and keys, which are those of /v1.
	"POST /api/auth/login": {kit.Describe[noParameters], kit.Doc{
		ID: "login", Summary: "Sign in with a password", Errors: []int{401, 415}, Body: form[loginFields](), Answers: answers[userView](200, "The cookies sessionid and csrftoken are set.", nil),
		Description: "The cookie is for paths below /api/. What changes something takes the token in X-CSRFToken, too.",
	}},
	"POST /api/auth/logout": {kit.Describe[noParameters], kit.Doc{ID: "logout", Summary: "Sign out", Status: 204, Answers: nothing}},
	"POST /api/auth/register": {kit.Describe[noParameters], kit.Doc{
		ID: "register", Summary: "Make a user for oneself", Status: 201, Errors: []int{409, 415}, Body: form[registerFields](), Answers: answers[userView](201, "Made.", nil),
		Description: "403 unless orchestrator.registration is set.",
	}},
	"GET /api/auth/me":       {kit.Describe[noParameters], kit.Doc{ID: "me", Summary: "See who asks", Answers: answers[userView](200, "The user, or the owner of the key.", nil)}},
	"GET /api/auth/csrf":     {kit.Describe[noParameters], kit.Doc{ID: "csrf", Summary: "Set the cookie csrftoken again", Status: 204, Answers: nothing}},
	"GET /api/auth/settings": {kit.Describe[noParameters], kit.Doc{ID: "settings", Summary: "See how users are made and sign in", Answers: answers[settingsView](200, "As it is.", nil)}},

	"POST /api/api-keys": {kit.Describe[noParameters], kit.Doc{
		ID: "create-key", Summary: "Make a key", Status: 201, Errors: []int{409, 415}, Body: form[keyFields](), Answers: answers[newKeyView](201, "The key is told here and nowhere else.", nil),
	}},
	"GET /api/api-keys":          {kit.Describe[noParameters], kit.Doc{ID: "list-keys", Summary: "List the caller's keys", Answers: answers[[]keyView](200, "Newest first.", nil)}},
	"DELETE /api/api-keys/{key}": {kit.Describe[ofKey], kit.Doc{ID: "revoke-key", Summary: "End a key", Status: 204, Errors: []int{404}, Answers: nothing}},
}
