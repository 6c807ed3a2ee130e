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

// Sizes of request bodies. A command and its stdin of 1 MiB each fit into
// maxExecBody with every character escaped as \uXXXX that commonly is.
const (
	maxBody     = 1 << 20
	maxExecBody = 8 << 20
)

// operation is what the document says of a route beside its types.
type operation struct {
	id, summary string
	description string
	status      int   // of success, if not 200
	body        int64 // the limit of its request body, if not maxBody
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
	"PATCH /v1/sessions/{id}": {
		id: "update-session", summary: "Change a session", errors: []int{404, 409, 415, 501},
		description: "How long it may live, what happens when it is idle, and its labels. What is left out stays as it is. This is not activity.",
	},
	"POST /v1/sessions/{id}/pause": {
		id: "pause-session", summary: "Pause a session", errors: []int{404, 409, 415, 501},
		description: "Stops the session's programs where they are; they keep their memory and cost no processor time. Requests that wait for them go on waiting, and the timeout of a command goes on counting. The next request for a command, file or terminal wakes the session, unless auto_resume is off. To pause what is paused is no error.",
	},
	"POST /v1/sessions/{id}/resume": {
		id: "resume-session", summary: "Resume a paused session", errors: []int{404, 409, 501},
		description: "Its programs go on where they were. To resume what runs is no error.",
	},
	"POST /v1/sessions/{id}/stop": {
		id: "stop-session", summary: "Stop a session", errors: []int{404, 409, 501},
		description: "Kills all its processes and keeps its files; commands in progress end with cause sandbox_gone. A stopped session costs disk only. To stop what is stopped is no error.",
	},
	"POST /v1/sessions/{id}/start": {
		id: "start-session", summary: "Start a stopped session", errors: []int{404, 409, 501, 507},
		description: "Boots it on its files, with its limits, environment and hostname. boot_id is another, shells are new, and the directory is /workspace. To start what runs is no error.",
	},
	"POST /v1/sessions/{id}/heartbeat": {
		id: "heartbeat", summary: "Keep a session alive", errors: []int{404, 409},
		description: "Counts as activity and does nothing else: it does not wake a paused session.",
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
		id: "read-file", summary: "Read a file", errors: []int{403, 404, 409, 422},
		description: "As JSON with base64, or as the bytes themselves with raw=1 (application/octet-stream, streamed, of any size).",
	},
	"POST /v1/sessions/{id}/fs/write": {
		id: "write-file", summary: "Write a file", errors: []int{403, 404, 409, 415, 422, 507},
		description: "Replaces or makes the file, and its directories, atomically. Exactly one of text and content_base64 is needed; it may be empty. The content may have as many bytes as write_bytes at /v1/info says, 16 MiB unless configured otherwise; for more use fs/upload.",
	},
	"POST /v1/sessions/{id}/fs/upload": {
		id: "upload-files", summary: "Upload files", errors: []int{403, 404, 409, 415, 422, 507},
		description: "multipart/form-data with one or more parts named file or files, and a field path in any position. As with cp, path is a directory if it ends in a slash, if it is one already or if there are several files; else it is the file to write. Without path the files go to /workspace. Each file is written atomically, in their order, after all have arrived.",
	},
	"GET /v1/sessions/{id}/fs/list": {
		id: "list-files", summary: "List a directory", errors: []int{403, 404, 409, 422},
		description: "At most 10000 entries, sorted by name.",
	},
	"GET /v1/sessions/{id}/ports": {
		id: "list-ports", summary: "List listening ports", errors: []int{404, 409},
		description: "The TCP ports on which programs in the session listen, by number. Any of them, listed or not yet, can be reached with HTTP and WebSocket, with any method, at its url: /v1/sessions/{id}/ports/{port}/ and what follows, or a host of its own. The answer there is the program's, or one of ours: 502 (bad_gateway) if nothing listens or what does speaks no HTTP, 504 (gateway_timeout) if it does not answer. Asking for the list is not activity.",
	},
	"POST /v1/sessions/{id}/previews": {
		id: "create-preview", summary: "Make a token that opens one port", status: http.StatusCreated, errors: []int{404, 409, 415},
		description: "For a browser, or somebody who has no key. The token opens this port of this session and nothing else, until it expires or the session ends. It cannot be taken back otherwise. What keeps it is the caller's to protect, like a key.",
	},
	"GET /v1/sessions/{id}/tunnel": {
		id: "open-tunnel", summary: "Connect to a port", status: http.StatusSwitchingProtocols, errors: []int{404, 409},
		description: "A WebSocket that is a TCP connection to a port of the session. Binary messages of any size up to 1 MiB are its bytes, in both directions; an empty one says that no more come in that direction. Any port is reached, of any protocol over TCP.",
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
