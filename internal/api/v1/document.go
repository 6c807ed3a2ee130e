package v1

import (
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// errorExamples show one error of each status.
var errorExamples = []struct {
	status        int
	code          errdefs.Code
	means, advice string
	field         string
}{
	{400, errdefs.InvalidArgument, "The request is wrong. The message names the field.", "ttl_seconds must be at least 1", "ttl_seconds"},
	{401, errdefs.Unauthenticated, "No valid API key. The body is the same whatever is wrong with the key.", "a valid API key is needed: send Authorization: Bearer <key> or X-API-Key: <key>", ""},
	{403, errdefs.PermissionDenied, "The key, the image, the path, the Host or the Origin is not allowed.", "the image is not in allowed_images", "image"},
	{404, errdefs.NotFound, "There is no such thing, or it belongs to another key.", "no such session", ""},
	{408, "request_timeout", "The request's body did not arrive in time.", "the request body did not arrive in time; send it again", ""},
	{409, errdefs.Conflict, "The state does not allow it now (conflict), or the name is taken (already_exists).", "session f5q2bz7lq4m3k5n6p7r2s3t4u5 is expired: it was idle for 30m0s", ""},
	{411, "length_required", "The body came without its length.", "Content-Length is needed: send the body with its length, not in chunks", ""},
	{412, errdefs.PreconditionFailed, "The file is not the one that If-Match names, or there is one and If-None-Match says that there must be none.", `"notes.txt" is not the file that If-Match names: it was changed or removed since; read it again, and decide whether to replace what is there now`, ""},
	{413, errdefs.TooLarge, "Over a size limit, which the message names.", "the request body is over its limit of 1048576 bytes", ""},
	{415, "unsupported_media_type", "The body has another type than the route takes.", "Content-Type must be application/json", ""},
	{416, "range_not_satisfiable", "The file has no such range, which Content-Range says more about.", "Range begins behind the end: the file has 3 bytes", ""},
	{422, errdefs.Unprocessable, "Understood, but it cannot be done with this content.", "this Idempotency-Key was used with another request; send a new key", ""},
	{429, errdefs.ResourceExhausted, "Over a limit of rate or number. See Retry-After.", "the maximum of 64 sessions for one key is reached; destroy one or wait for one to expire", ""},
	{431, "headers_too_large", "The request's path and headers are over their limit.", "the request's path and headers are over their limit of 32768 bytes", ""},
	{500, errdefs.Internal, "Our fault. The daemon's log has the details under the request's id.", "internal error; the daemon's log has the details under this request's id", ""},
	{501, errdefs.Unimplemented, "This driver or this build cannot do it.", "network.mode must be none: this session's driver gives sandboxes no networks", "network.mode"},
	{503, errdefs.Unavailable, "Not now. See Retry-After.", "the daemon is starting and takes up its sessions; try again in a second", ""},
	{507, errdefs.InsufficientSpace, "A disk or a quota is full.", "the sandbox's disk is full; remove files or create a session with a larger disk_mb", ""},
}

// document completes the OpenAPI document when all routes are registered.
func (s *surface) document() *huma.OpenAPI {
	doc := s.kit.Document()
	doc.Info = &huma.Info{
		Title: "Sandkasten", Version: "1",
		Description: "Isolated Linux machines for agents. Every error has the fields error, code, sometimes field, and request_id. Unknown fields, doubled fields and null are refused. Times are RFC 3339 in UTC.",
		License:     &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
	}
	doc.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"bearer":  {Type: "http", Scheme: "bearer"},
		"apiKey":  {Type: "apiKey", In: "header", Name: "X-API-Key"},
		"session": {Type: "apiKey", In: "cookie", Name: api.SessionCookie.Name, Description: "Of who has signed in. Other than GET and HEAD it takes its token, too, as X-CSRF-Token. Every operation takes it instead of a key, but for those of ports. Over TLS its name begins with __Host-."},
	}
	doc.Components.Responses = make(map[string]*huma.Response)
	for _, e := range errorExamples {
		example := map[string]any{"error": e.advice, "code": e.code}
		if e.field != "" {
			example["field"] = e.field
		}
		if e.status != http.StatusUnauthorized {
			example["request_id"] = "5YXTKD3NPQZJH3LYXAFXCLMPGE"
		}
		doc.Components.Responses[strconv.Itoa(e.status)] = &huma.Response{
			Description: e.means,
			Content: map[string]*huma.MediaType{"application/json": {
				Schema: &huma.Schema{Ref: "#/components/schemas/ErrorBody"}, Example: example,
			}},
		}
	}
	doc.Components.Schemas.Schema(reflect.TypeFor[Event](), true, "") // of a stream, which has no schema
	documentConstraints(doc.Components.Schemas.Map())
	documentExamples(doc.Components.Schemas)
	documentTags(doc)
	// Requests are closed, answers are open: they get new fields.
	for name, schema := range doc.Components.Schemas.Map() {
		if !strings.HasSuffix(name, "Request") && name != "Limits" {
			schema.AdditionalProperties = nil
		}
	}
	return doc
}

// The examples of the document.
var exampleExec = map[string]any{
	"exit_code": 0, "cwd": "/workspace", "output": "hi\n", "output_encoding": "utf-8", "truncated": false, "duration_ms": 1,
	"exec_id": "f5q2bz7lq4m3k5n6p7r2s3t4u5", "cause": "exited", "timed_out": false, "shell_restarted": false,
	"output_bytes": 3, "dropped_bytes": 0,
}

var exampleProcess = map[string]any{
	"exec_id": "f5q2bz7lq4m3k5n6p7r2s3t4u5", "status": "completed", "pid": 42, "exit_code": 0, "cause": "exited", "timed_out": false,
	"duration_ms": 12, "stdout": "1\n", "stderr": "", "truncated": false, "dropped_bytes": 0, "output_bytes": 2,
	"usage": map[string]any{"cpu_ms": 9, "memory_bytes": 8192000, "processes": 0},
}

var exampleStarted = map[string]any{
	"exec_id": "f5q2bz7lq4m3k5n6p7r2s3t4u5", "status": "running", "pid": 42, "timed_out": false, "duration_ms": 0,
	"truncated": false, "dropped_bytes": 0, "output_bytes": 0,
}

const exampleStream = `event: start
id: f5q2bz7lq4m3k5n6p7r2s3t4u5:0
data: {"exec_id":"f5q2bz7lq4m3k5n6p7r2s3t4u5"}

event: chunk
id: f5q2bz7lq4m3k5n6p7r2s3t4u5:3
data: {"chunk":"hi\n","timestamp":1795251600001,"time":"2026-11-21T09:00:00.001Z"}

event: done
id: f5q2bz7lq4m3k5n6p7r2s3t4u5:end
data: {"exit_code":0,"cwd":"/workspace","duration_ms":1,"exec_id":"f5q2bz7lq4m3k5n6p7r2s3t4u5","cause":"exited","timed_out":false,"shell_restarted":false,"output_bytes":3,"dropped_bytes":0}

`

const exampleWatch = `event: ready
data: {}

event: create
data: {"path":"a.txt","type":"file"}

event: rename
data: {"path":"b.txt","from":"a.txt","type":"file"}

`

const exampleJobEvents = `event: progress
data: {"phase":"download","done_bytes":1048576,"total_bytes":28230144}

event: done
data: {"id":"k5n6p7r2s3t4u5f5q2bz7lq4m3","kind":"pull","name":"debian:12-slim","status":"canceled","progress":{"phase":"download","done_bytes":1048576,"total_bytes":28230144},"created_at":"2026-11-21T09:00:00Z","ended_at":"2026-11-21T09:00:02Z"}

`

const exampleEvents = `event: ready
id: mzxk2q9c1-1200345
data: {"id":"mzxk2q9c1-1200345","type":"ready","time":"2026-11-21T09:00:00Z"}

event: exec.burst
id: mzxk2q9c1-2400871
data: {"id":"mzxk2q9c1-2400871","type":"exec.burst","time":"2026-11-21T09:00:01Z","owner":"alice","session_id":"f5q2bz7lq4m3k5n6p7r2s3t4u5","exec_burst":{"started":120,"finished":118}}

`

const exampleNetworkLog = `event: network
id: 1763715600000001
data: {"seq":1763715600000001,"time":"2026-11-21T09:00:00Z","op":"resolve","name":"pypi.example.org","allowed":false,"why":"no entry of allow names it","count":1}

event: done
data: {}

`
