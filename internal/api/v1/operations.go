package v1

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/sandkasten/sandkasten/internal/api"
)

// scopeKey is where an operation carries its scope from table to adapter.
const scopeKey = "scope"

// Sizes of request bodies. A command and its stdin, or the
// two texts of an edit, of 1 MiB each fit into maxExecBody with every character escaped as \uXXXX that commonly is.
const (
	maxBody     = 1 << 20
	maxExecBody = 8 << 20
	noLimit     = -1
)

// operation is what the document says of a route beside its types.
type operation struct {
	id, summary string
	description string
	status      int   // of success, if not 200
	body        int64 // the limit of its request body, if not maxBody; noLimit if its handler has one
	errors      []int // beside those that every route has
	media       string
	example     any // of a successful answer
}

// operations documents every route of table, by pattern.
var operations = map[string]operation{
	"POST /v1/sessions": {
		id: "create-session", summary: "Create a session", status: http.StatusCreated, errors: []int{403, 404, 409, 415, 422, 501, 507},
		description: "Makes a sandbox and answers when it can run commands. Send an Idempotency-Key to be able to repeat the request safely: the same key with the same body gives the same session, with another body 422. With a key the session is made even if the client goes away; without one it is removed then.",
	},
	"GET /v1/sessions": {
		id: "list-sessions", summary: "List sessions",
		description: "The sessions of this key that have not ended, oldest first.",
	},
	"GET /v1/sessions/{id}": {
		id: "get-session", summary: "Get a session", errors: []int{404},
		description: "Also of a session that ended not long ago.",
	},
	"DELETE /v1/sessions/{id}": {
		id: "destroy-session", summary: "Destroy a session", errors: []int{404},
		description: "Ends the session's processes and removes its files. Works in every state; to repeat it is no error.",
	},
	"GET /v1/sessions/{id}/stats": {
		id: "get-stats", summary: "Get a session's use of resources", errors: []int{404, 409},
		description: "Read from outside the sandbox. A value that the host cannot measure is 0. Asking is not activity.",
	},
	"POST /v1/sessions/{id}/exec": {
		id: "exec", summary: "Run a command and wait for its end", body: maxExecBody, errors: []int{404, 409, 415},
		description: "Runs in the session's persistent shell: directory, variables, functions and background jobs stay for the next command. Commands of one shell run one after another. The answer is 200 however the command ended; cause says how. A command that is out of time is killed with all its processes, and the answer has what it printed until then. If the client goes away the command goes on; its record stays at /v1/sessions/{id}/execs. Beyond the output limit the first and the last half are kept, and a line between them says how much is missing.",
		example:     exampleExec,
	},
	"POST /v1/sessions/{id}/exec/stream": {
		id: "exec-stream", summary: "Run a command and follow its output", body: maxExecBody, errors: []int{404, 409, 415}, media: "text/event-stream",
		description: "Server-sent events. First start, with the exec's id; then chunk for each piece of output; at last exactly one of done, with the fields of exec's answer but for the output, and error, with the fields of an error. The id of a chunk is the byte offset behind it in the command's raw output. After a broken stream, go on at /v1/sessions/{id}/execs/{exec_id}/stream with that id as Last-Event-ID: no byte is lost or doubled. A client that is slow to read slows the command down.",
		example:     exampleStream,
	},
	"GET /v1/sessions/{id}/execs": {
		id: "list-execs", summary: "List commands", errors: []int{404, 409},
		description: "The commands that the session still knows, oldest first: those that wait, run, or ended not long ago. Asking is not activity.",
	},
	"GET /v1/sessions/{id}/execs/{exec_id}": {
		id: "get-exec", summary: "Get a command's record and output", errors: []int{404, 409},
		description: "Also of a command whose client went away or that was running while the daemon restarted. With wait_ms the answer comes when the command ends, or after that time with what there is.",
	},
	"GET /v1/sessions/{id}/execs/{exec_id}/stream": {
		id: "attach-stream", summary: "Follow a command's output from anywhere", errors: []int{404, 409}, media: "text/event-stream",
		description: "The events of exec/stream, from the start or from Last-Event-ID.",
		example:     exampleStream,
	},
	"POST /v1/sessions/{id}/execs/{exec_id}/cancel": {
		id: "cancel-exec", summary: "End a command", errors: []int{404, 409},
		description: "Kills the command with all its processes, as a timeout does. To cancel one that has ended is no error.",
	},
	"GET /v1/sessions/{id}/terminal": {
		id: "open-terminal", summary: "Open an interactive terminal", status: http.StatusSwitchingProtocols, errors: []int{404, 409},
		description: `A WebSocket. Binary messages are what is typed and what is shown. Text messages are JSON: {"resize":{"rows":24,"cols":80}} from the client, and {"exit":{"exit_code":0}} from the daemon before it closes. A message may have 1 MiB. When the WebSocket closes, the terminal is hung up.`,
	},
	"GET /v1/sessions/{id}/fs/read": {
		id: "read-file", summary: "Read a file", errors: []int{403, 404, 409, 416, 422},
		description: "As JSON with base64. With raw=1, Accept: application/octet-stream or a Range as the bytes themselves: streamed, of any size, with X-File-Size, X-File-Mode and an ETag made of time and size. One range is answered with 206, one behind the end and several with 416. HEAD works. A transfer that fails halfway breaks the connection.",
	},
	"POST /v1/sessions/{id}/fs/write": {
		id: "write-file", summary: "Write a file", errors: []int{403, 404, 409, 415, 422, 507},
		description: "Replaces or makes the file, and its directories, atomically. Exactly one of text and content_base64 is needed; it may be empty. The content may have as many bytes as write_bytes at /v1/info says, 16 MiB unless configured otherwise; for more use PUT fs/raw.",
	},
	"PUT /v1/sessions/{id}/fs/raw": {
		id: "write-file-raw", summary: "Write a file of any size", body: noLimit, errors: []int{403, 404, 409, 411, 422, 507},
		description: "The body is the file, of any type. It is written as it arrives, atomically: if the client goes away halfway, the file is as before. Needs a Content-Length, of at most file_bytes at /v1/info.",
	},
	"POST /v1/sessions/{id}/fs/upload": {
		id: "upload-files", summary: "Upload files", body: noLimit, errors: []int{403, 404, 409, 415, 422, 507},
		description: "multipart/form-data with one or more parts named file or files, and a field path in any position. As with cp, path is a directory if it ends in a slash, if it is one already or if there are several files; else it is the file to write. Without path the files go to /workspace. Each file is written atomically, in their order, after all have arrived.",
	},
	"GET /v1/sessions/{id}/fs/list": {
		id: "list-files", summary: "List a directory", errors: []int{403, 404, 409, 422},
		description: "Sorted by name, in pages of at most 10000 entries. Entries that are there from the first page to the last are listed exactly once, whatever else comes and goes meanwhile.",
	},
	"GET /v1/sessions/{id}/fs/stat": {
		id: "stat-file", summary: "Describe a file", errors: []int{403, 404, 409, 422},
		description: "A file of any kind. A link is described itself unless follow is set.",
	},
	"POST /v1/sessions/{id}/fs/mkdir": {
		id: "make-directory", summary: "Make a directory", errors: []int{403, 404, 409, 415, 422, 507},
		description: "409 if something is there already, unless parents is set and it is a directory.",
	},
	"POST /v1/sessions/{id}/fs/move": {
		id: "move-file", summary: "Rename a file or directory", errors: []int{403, 404, 409, 415, 422, 507},
		description: "In one step: everybody sees the old name or the new. 409 if something is there, unless overwrite is set; a directory that has entries is never replaced.",
	},
	"POST /v1/sessions/{id}/fs/copy": {
		id: "copy-file", summary: "Copy a file or directory", errors: []int{403, 404, 409, 415, 422, 507},
		description: "Files, directories and links as links, with their modes; other kinds are refused. 409 if something is there, unless overwrite is set.",
	},
	"POST /v1/sessions/{id}/fs/delete": {
		id: "delete-file", summary: "Remove a file or directory", errors: []int{403, 404, 409, 415, 422},
		description: "A directory that has entries only if recursive is set, else 409. Links are removed, not followed.",
	},
	"POST /v1/sessions/{id}/fs/chmod": {
		id: "change-mode", summary: "Change the mode of a file", errors: []int{403, 404, 409, 415, 422},
		description: "Or of a directory, with recursive also of the files and directories in it.",
	},
	"POST /v1/sessions/{id}/fs/edit": {
		id: "edit-file", summary: "Replace text in a file", body: maxExecBody, errors: []int{403, 404, 409, 415, 422, 507},
		description: "Every place where the old text is, written atomically. If it is not there as often as count says, 422 and the file stays as it is.",
	},
	"GET /v1/sessions/{id}/fs/glob": {
		id: "find-files", summary: "Find files by name", errors: []int{403, 404, 409, 422},
		description: "Below a directory, links not followed.",
	},
	"GET /v1/sessions/{id}/fs/grep": {
		id: "search-files", summary: "Find lines by their text", errors: []int{403, 404, 409, 422},
		description: "In the regular files below a directory, or in one file. Binary files are passed over.",
	},
	"GET /v1/sessions/{id}/fs/watch": {
		id: "watch-files", summary: "Follow the changes in a directory", errors: []int{403, 404, 409, 422}, media: "text/event-stream",
		description: "Server-sent events. First ready: all later changes are told. Then create, write, remove, rename and chmod with the path, relative to the directory, and overflow where changes were too many and some are lost: look again. At the end of the session, error with the fields of an error. To watch is not activity.",
		example:     exampleWatch,
	},
	"GET /v1/sessions/{id}/fs/archive": {
		id: "download-archive", summary: "Download a directory", errors: []int{403, 404, 409, 422},
		description: "Packed while it is sent: files, directories and links, with their modes and times; other kinds are left out. If it fails halfway, the connection breaks.",
	},
	"PUT /v1/sessions/{id}/fs/archive": {
		id: "upload-archive", summary: "Unpack an archive into a directory", body: noLimit, errors: []int{403, 404, 409, 411, 422, 507},
		description: "The body is the archive. It is unpacked as it arrives into the directory, which is made if it is missing; what is there already is replaced. Entries that lead out of it are refused with 422. What was unpacked before an error stays. Needs a Content-Length, of at most file_bytes at /v1/info.",
	},
	"GET /v1/info": {
		id: "get-info", summary: "Get the daemon's version and limits",
		description: "What a client may ask for at most and what it gets if it does not ask.",
	},
	"GET /healthz": {
		id: "healthz", summary: "Is the daemon alive",
		description: "200 from the moment the daemon listens. Needs no key.",
	},
	"GET /readyz": {
		id: "readyz", summary: "Can the daemon work",
		description: "503 until the sessions of an earlier run of the daemon have been taken up. Needs no key.",
	},
}

// always are the errors that any route with a key may give.
var always = []int{400, 401, 403, 413, 429, 500, 503}

// operation returns a route's part of the document.
func (s *surface) operation(pattern string, scope api.Scope) huma.Operation {
	doc, ok := operations[pattern]
	if !ok {
		panic("v1: route " + pattern + " is not documented")
	}
	method, path, _ := strings.Cut(pattern, " ")
	status := cmp.Or(doc.status, http.StatusOK)
	limit := cmp.Or(doc.body, maxBody)
	if doc.id == "write-file" {
		limit += s.opts.WriteBytes * 2 // base64 takes a third more, escaped text what it takes
	}
	op := huma.Operation{
		OperationID: doc.id, Summary: doc.summary, Description: doc.description,
		Method: method, Path: path, DefaultStatus: status,
		MaxBodyBytes:    limit + 1, // huma refuses a body of exactly this size
		BodyReadTimeout: api.BodyTimeout,
		Metadata:        map[string]any{scopeKey: scope},
		Responses:       map[string]*huma.Response{strconv.Itoa(status): success(doc, status)},
	}
	errors := append([]int{503}, doc.errors...)
	if scope == api.Public {
		op.Security = []map[string][]string{}
	} else {
		op.Security = []map[string][]string{{"bearer": {}}, {"apiKey": {}}}
		errors = append(errors, always...)
	}
	for _, status := range errors {
		code := strconv.Itoa(status)
		op.Responses[code] = &huma.Response{Ref: "#/components/responses/" + code}
	}
	return op
}

func success(doc operation, status int) *huma.Response {
	response := &huma.Response{Description: http.StatusText(status)}
	if doc.media != "" || doc.example != nil {
		media := doc.media
		if media == "" {
			media = "application/json"
		}
		response.Content = map[string]*huma.MediaType{media: {Example: doc.example}}
	}
	return response
}
