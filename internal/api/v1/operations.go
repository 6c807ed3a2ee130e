package v1

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/weaken"
)

// Sizes of request bodies. A command and its stdin, or the
// two texts of an edit, of 1 MiB each fit into maxExecBody with every character escaped as \uXXXX that commonly is.
const (
	maxBody     = 1 << 20
	maxExecBody = 8 << 20

	maxBuildBody = 32 << 20 // a recipe's files as base64
	noLimit      = -1
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
		description: "Kills all its processes and keeps its files; commands in progress end with cause sandbox_gone. A stopped session costs disk only, and is kept for stopped_retention_seconds; expires_at in the answer says until when. To stop what is stopped is no error.",
	},
	"POST /v1/sessions/{id}/start": {
		id: "start-session", summary: "Start a stopped session", errors: []int{404, 409, 501, 507},
		description: "Boots it on its files, with its limits, environment and hostname. boot_id is another, shells are new, and the directory is /workspace. To start what runs is no error.",
	},
	"POST /v1/sessions/{id}/fork": {
		id: "fork-session", summary: "Fork a session", status: http.StatusCreated, errors: []int{404, 409, 415, 422, 501, 507},
		description: "Makes sessions that begin with this one's files: all that it has written to its root and to a /workspace of its own, as it was at one moment. A workspace that outlives sessions is shared with it. Processes, shells and memory are not copied. The session may be running, paused or stopped, and stays so; its programs stand still until the moment is taken. Each fork has an id, boot id, hostname and machine-id of its own, and the session's image, limits, environment, labels and policy where the request says nothing else. All are made or none. Where the host can share data between files a fork costs what a create does, however much was written, and no disk until it changes something; copied says that it could not.",
	},
	"POST /v1/sessions/{id}/heartbeat": {
		id: "heartbeat", summary: "Keep a session alive", errors: []int{404, 409},
		description: "Counts as activity and does nothing else: it does not wake a paused session.",
	},
	"POST /v1/sessions/{id}/exec": {
		id: "exec", summary: "Run a command and wait for its end", body: maxExecBody, errors: []int{404, 409, 415, 422, 507},
		description: "Runs in the session's persistent shell: directory, variables, functions and background jobs stay for the next command. Commands of one shell run one after another. The answer is 200 however the command ended; cause says how. A command that is out of time is killed with all its processes, and the answer has what it printed until then. If the client goes away the command goes on; its record stays at /v1/sessions/{id}/execs. Beyond the output limit the first and the last half are kept, and a line between them says how much is missing.",
		example:     exampleExec,
	},
	"POST /v1/sessions/{id}/exec/stream": {
		id: "exec-stream", summary: "Run a command and follow its output", body: maxExecBody, errors: []int{404, 409, 415, 422, 507}, media: "text/event-stream",
		description: "Server-sent events. First start, with the exec's id; then chunk for each piece of output; at last exactly one of done, with the fields of exec's answer but for the output, and error, with the fields of an error. Every id is the exec's id, a colon and the byte offset behind the chunk in the command's raw output, or end for done. After a broken stream, go on at /v1/sessions/{id}/execs/{exec_id}/stream with that id as Last-Event-ID: no byte is lost or doubled. A client that is slow to read slows the command down.",
		example:     exampleStream,
	},
	"GET /v1/sessions/{id}/exec/stream": {
		id: "exec-events", summary: "Run a command and follow its output, from an EventSource", errors: []int{404, 409, 422, 507}, media: "text/event-stream",
		description: "The same with a query instead of a body. An EventSource whose connection breaks comes back with Last-Event-ID, which goes on behind that event and runs nothing; behind done the answer is 204, which ends its coming back.",
		example:     exampleStream,
	},
	"GET /v1/sessions/{id}/execs": {
		id: "list-execs", summary: "List commands and processes", errors: []int{404, 409},
		description: "Those that the session still knows, oldest first: those that wait, run, or ended not long ago. Asking is not activity.",
	},
	"GET /v1/sessions/{id}/execs/{exec_id}": {
		id: "get-exec", summary: "Get the record and output of a command", errors: []int{404, 409},
		description: "Also of one whose client went away or that was running while the daemon restarted. With wait_ms the answer comes when it ends, or after that time with what there is. Of a process the output is both streams in the order in which they were read.",
	},
	"GET /v1/sessions/{id}/execs/{exec_id}/output": {
		id: "exec-output", summary: "Read the output of a command piece by piece", errors: []int{404, 409},
		description: "What is kept of the output behind since_seq, as it was written. Pass next_seq as since_seq to go on: no byte is lost silently or doubled. While nobody reads, the beginning and the end of what is written are kept, and dropped counts the bytes of the middle. Nobody is held up by this call: use stream to have a command wait for its reader.",
	},
	"GET /v1/sessions/{id}/execs/{exec_id}/stream": {
		id: "attach-stream", summary: "Follow the output of a command from anywhere", errors: []int{404, 409}, media: "text/event-stream",
		description: "The events of exec/stream, from the start or from Last-Event-ID, which may be the id of an event or the offset in it. Chunks of a process say its stream. 204 behind done.",
		example:     exampleStream,
	},
	"POST /v1/sessions/{id}/execs/{exec_id}/wait": {
		id: "wait-exec", summary: "Wait for the end of a command", errors: []int{404, 409, 415},
		description: "Answers with its record when it has ended, or after timeout_ms with the record as it is.",
	},
	"POST /v1/sessions/{id}/execs/{exec_id}/stdin": {
		id: "exec-stdin", summary: "Write to standard input of a command", body: maxExecBody, errors: []int{404, 409, 415},
		description: "Of a command or process that was started with open_stdin, or a process with tty. 409 if its stdin is not open, or not any more: it has ended, or the stdin was closed. The answer comes when the command has taken the data, or after 5 s with how much of it it took; a command that waits for its shell takes nothing yet.",
	},
	"POST /v1/sessions/{id}/execs/{exec_id}/signal": {
		id: "signal-exec", summary: "Send a signal to a command", errors: []int{404, 409, 415},
		description: "To the process group of a process, the foreground job of its terminal, or what a shell's command started. To end something with all that it started, use cancel.",
	},
	"POST /v1/sessions/{id}/execs/{exec_id}/resize": {
		id: "resize-exec", summary: "Resize the terminal of a command", errors: []int{404, 409, 415},
		description: "Of a process with a terminal. What runs on it gets WINCH.",
	},
	"POST /v1/sessions/{id}/execs/{exec_id}/cancel": {
		id: "cancel-exec", summary: "End a command", errors: []int{404, 409},
		description: "Kills it with all its processes, as a timeout does. To cancel what has ended is no error.",
	},
	"POST /v1/sessions/{id}/processes": {
		id: "start-process", summary: "Run a process", body: maxExecBody, errors: []int{404, 409, 415, 422, 507},
		description: "Runs a program without a shell, beside everything else in the session, with its standard output and error apart. The answer comes at its end, with 200 however it ended; in the background at once, with 201. It is an exec like the commands of shells: its id works at /v1/sessions/{id}/execs too. A program that cannot be started is 422. A foreground process, and whoever reads or waits, keep the session in use; a background process alone does not.",
		example:     exampleProcess,
	},
	"POST /v1/sessions/{id}/processes/stream": {
		id: "process-stream", summary: "Run a process and follow its output", body: maxExecBody, errors: []int{404, 409, 415, 422, 507}, media: "text/event-stream",
		description: "The same request, not in the background, answered with the events of exec/stream. Chunks say their stream. A program that cannot be started is 422 with field cmd, and no stream.",
		example:     exampleStream,
	},
	"GET /v1/sessions/{id}/processes": {
		id: "list-processes", summary: "List processes", errors: []int{404, 409},
		description: "The list of execs without the commands of shells.",
	},
	"DELETE /v1/sessions/{id}/processes/{exec_id}": {
		id: "delete-process", summary: "End a process", errors: []int{404, 409},
		description: "The same as cancel.",
	},
	"GET /v1/sessions/{id}/shells": {
		id: "list-shells", summary: "List shells", errors: []int{404, 409},
		description: "By name. Asking is not activity.",
	},
	"DELETE /v1/sessions/{id}/shells/{name}": {
		id: "close-shell", summary: "Close a shell", errors: []int{404, 409},
		description: "Ends the shell and all that it started; its commands end as canceled. The next command that names it gets a new one, as does the default shell at once.",
	},
	"GET /v1/sessions/{id}/terminal": {
		id: "open-terminal", summary: "Open an interactive terminal", status: http.StatusSwitchingProtocols, errors: []int{404, 409, 422},
		description: `A WebSocket. Binary messages are what is typed and what is shown. Text messages are JSON. The daemon's first is {"started":{"terminal_id":"...","reattached":false,"seq":0}}; {"dropped":{"bytes":100}} says that so much of what comes next is not kept any more; {"exit":{"exit_code":0,"cause":"exited"}} is its last before it closes. The client may send {"resize":{"rows":24,"cols":80}}. A message may have 1 MiB. When the WebSocket closes, the terminal lives on for a time that the daemon's configuration says, and terminal_id attaches to it again: with scrollback, or exactly where it was with since_seq, the seq of started and as many bytes as came since. Any number may be attached. A terminal is a process: the paths below execs work for it.`,
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
		description: "multipart/form-data with one or more parts named file or files, and a field path in any position. As with cp, path is a directory if it ends in a slash, if it is one already or if there are several files; else it is the file to write. A path that nothing is at, without an extension, is made a directory for a file that has one. Without path the files go to /workspace. Each file is written atomically, in their order, after all have arrived.",
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
	"POST /v1/workspaces": {
		id: "create-workspace", summary: "Create a workspace", status: http.StatusCreated, errors: []int{409, 415, 501, 507},
		description: "An empty directory that outlives sessions. A session has it at /workspace if it was created with workspace_id; several may have it at the same time. 409 if this key has one of that id.",
	},
	"GET /v1/pool/status": {
		id: "get-pool-status", summary: "Get the pool's status", errors: []int{403},
		description: "Only for the daemon's own key, for it tells of the sessions of all. What is ready for sessions that are about to come. A session gets a ready sandbox if it asks for an image of the pool with the default disk_mb and readonly_rootfs; whatever else it asks for, it is given on the way.",
	},
	"POST /v1/sessions/{id}/snapshots": {
		id: "create-snapshot", summary: "Save a session's files", status: http.StatusCreated, errors: []int{404, 409, 413, 415, 422, 501, 507},
		description: "The session's programs stand still while its files are read, and go on. A paused session stays paused, and a stopped one stopped: none of its programs runs for that. A new session begins with the files if it is created with restore_snapshot_id. Owners, modes and times of files are kept; set-id bits, extended attributes, pipes, sockets and devices are not, and hard links become files of their own. What is under way when the session is destroyed ends with 409. An Idempotency-Key is as in the creation of a session.",
	},
	"GET /v1/snapshots": {
		id: "list-snapshots", summary: "List snapshots", errors: []int{501},
		description: "The snapshots of this key, oldest first, and what its archives take.",
	},
	"POST /v1/snapshots": {
		id: "upload-snapshot", summary: "Bring a snapshot from another host", status: http.StatusCreated, body: noLimit, errors: []int{411, 413, 422, 501, 507},
		description: "The body is an archive as the download gives it, and comes with its Content-Length. All of it is checked before there is a snapshot: 422 if it is damaged, incomplete or hostile. Id and owner are new.",
	},
	"GET /v1/snapshots/{id}": {
		id: "get-snapshot", summary: "Get a snapshot", errors: []int{404, 501},
	},
	"DELETE /v1/snapshots/{id}": {
		id: "delete-snapshot", summary: "Remove a snapshot", errors: []int{404, 501},
		description: "Sessions that began with it keep their files.",
	},
	"GET /v1/snapshots/{id}/download": {
		id: "download-snapshot", summary: "Download a snapshot", errors: []int{404, 501}, media: "application/x-tar",
		description: "A tar file of manifest.json, which has the hash of each of the others, workspace.tar.zst and, with scope sandbox, root.tar.zst, which is a layer of an OCI image. An answer that was cut short ends in a broken connection.",
	},
	"GET /v1/images": {
		id: "list-images", summary: "List images", errors: []int{501},
		description: "What sessions may be made of, newest first. The daemon's own key also sees the images that allowed_images leaves out.",
	},
	"GET /v1/images/{image}": {
		id: "get-image", summary: "Get an image", errors: []int{404, 501},
	},
	"DELETE /v1/images/{image}": {
		id: "delete-image", summary: "Remove an image", errors: []int{403, 404, 409, 501},
		description: "Takes the name away, and the image with its last name; a digest stands for the image with all its names. 409 while a session uses it. Only for the daemon's own key, as all that changes images.",
	},
	"POST /v1/images/pull": {
		id: "pull-image", summary: "Pull an image from a registry", status: http.StatusAccepted, errors: []int{403, 415, 429, 501},
		description: "Starts a job that stores the linux image of a registry, with the credentials of docker login or podman login of the daemon's user. The job goes on when the client goes away. A request that is repeated while its job is under way gives that job.",
	},
	"POST /v1/images/build": {
		id: "build-image", summary: "Build an image from a recipe", status: http.StatusAccepted, body: maxBuildBody, errors: []int{403, 404, 415, 429, 501},
		description: "Starts a job that makes an image as the recipe says, which docs/images.md describes. Scripts of its packages and its steps run as root in a chroot of the daemon's host, with its network: a recipe must be trusted.",
	},
	"POST /v1/images/commit": {
		id: "commit-image", summary: "Make an image of a session or snapshot", status: http.StatusAccepted, errors: []int{403, 404, 409, 415, 429, 501},
		description: "Starts a job that stores the image of the session with what it has changed of its root on top. What is in /workspace is no part of it. A session's programs stand still while its files are read.",
	},
	"POST /v1/images/import": {
		id: "import-image", summary: "Make an image of an archive", status: http.StatusCreated, body: noLimit, errors: []int{403, 413, 422, 501, 507},
		description: "The body is the tar file of a whole root file system, which is unpacked as it arrives. If the client goes away before its end nothing is stored.",
	},
	"GET /v1/image-jobs": {
		id: "list-image-jobs", summary: "List jobs for images", errors: []int{403, 501},
		description: "Those that wait, run or have ended since the daemon's start, oldest first; of the ended ones the last hundred.",
	},
	"GET /v1/image-jobs/{id}": {
		id: "get-image-job", summary: "Get a job", errors: []int{403, 404, 501},
	},
	"GET /v1/image-jobs/{id}/events": {
		id: "image-job-events", summary: "Follow a job", errors: []int{403, 404, 501}, media: "text/event-stream",
		description: "Server-sent events: progress whenever the job is further, and at its end one done with the job. A stream that breaks is opened again, and begins with how far the job is then.",
		example:     exampleJobEvents,
	},
	"DELETE /v1/image-jobs/{id}": {
		id: "cancel-image-job", summary: "Cancel a job", errors: []int{403, 404, 501},
		description: "Ends the job and answers when it has let go of all; layers that it has finished stay for the next try. To cancel what has ended is no error.",
	},
	"GET /v1/workspaces": {
		id: "list-workspaces", summary: "List workspaces", errors: []int{501},
		description: "The workspaces of this key, oldest first.",
	},
	"GET /v1/workspaces/{id}": {
		id: "get-workspace", summary: "Get a workspace", errors: []int{404, 501},
		description: "With what it takes now.",
	},
	"GET /v1/workspaces/{id}/fs": {
		id: "workspace-files", summary: "List a directory of a workspace", errors: []int{404, 409, 422, 501},
		description: "The same as fs/list.",
	},
	"DELETE /v1/workspaces/{id}": {
		id: "delete-workspace", summary: "Delete a workspace", errors: []int{404, 409, 501},
		description: "With all that is in it. 409 while a session has it, unless force is given, which destroys those sessions.",
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
		description: "503 until the sessions of an earlier run of the daemon have been taken up, and while its data_dir cannot be written; error says which. Needs no key.",
	},
}

// always are the errors that any route with a key may give.
var always = []int{400, 401, 403, 413, 429, 431, 500, 503}

// operation returns a route's part of the document.
func (s *surface) operation(pattern string, scope api.Scope) huma.Operation {
	doc, ok := operations[pattern]
	if !ok {
		doc, ok = processOperation(pattern)
	}
	if !ok {
		doc, ok = workspaceFileOperation(pattern)
	}
	if !ok {
		panic("v1: route " + pattern + " is not documented")
	}
	method, path, _ := strings.Cut(pattern, " ")
	status := cmp.Or(doc.status, http.StatusOK)
	limit := cmp.Or(doc.body, maxBody)
	if strings.HasSuffix(path, "/fs/write") {
		limit += s.opts.WriteBytes * 2 // base64 takes a third more, escaped text what it takes
	}
	if weaken.Off(weaken.BodyLimit) && limit > 0 {
		limit <<= 10
	}
	op := huma.Operation{
		OperationID: doc.id, Summary: doc.summary, Description: doc.description,
		Method: method, Path: path, DefaultStatus: status,
		MaxBodyBytes:    limit + 1, // huma refuses a body of exactly this size
		BodyReadTimeout: api.BodyTimeout,
		Responses:       map[string]*huma.Response{strconv.Itoa(status): success(doc, status)},
	}
	errors := append([]int{503}, doc.errors...)
	if method != http.MethodGet && method != http.MethodDelete {
		errors = append(errors, http.StatusRequestTimeout)
	}
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

// processOperation documents the calls that a process has in common with the
// commands of shells.
func processOperation(pattern string) (operation, bool) {
	doc, ok := operations[strings.Replace(pattern, "/processes/", "/execs/", 1)]
	doc.id = strings.Replace(doc.id, "exec", "process", 1)
	if doc.id == "attach-stream" {
		doc.id = "attach-process-stream"
	}
	doc.summary = strings.Replace(doc.summary, "a command", "a process", 1)
	return doc, ok
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
