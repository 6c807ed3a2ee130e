package orchestrator

import (
	"cmp"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/sandkasten/sandkasten/internal/api"
)

// documentPath is where the document is served, to everybody.
const documentPath = prefix + "openapi.json"

// keyErrors are the statuses that any route with a key may answer.
var keyErrors = []int{400, 403, 413, 429, 431, 500, 503}

// errorMeanings say what each status of an error means, and give an example.
var errorMeanings = map[int]struct{ means, example string }{
	400: {"The request is wrong, or the state or the content of the session does not allow it.", "path is required"},
	401: {"The name or the password is wrong.", "Invalid credentials"},
	403: {"No valid API key, or the Host, the Origin or the address is not allowed.", "Invalid API key"},
	404: {"There is no such thing, or it belongs to somebody else.", "No SandboxSession matches the given query."},
	408: {"The request's body did not arrive in time.", "the request body did not arrive in time; send it again"},
	409: {"There is one already.", "there is a user of this name"},
	413: {"Over a size limit, which the message names.", "the request body is over its limit of 33554432 bytes"},
	415: {"The body is not JSON.", `Unsupported media type "text/plain" in request.`},
	429: {"Over a limit of rate or number. See Retry-After.", "the maximum of 64 sessions for one key is reached; destroy one or wait for one to expire"},
	431: {"The request's path and headers are over their limit.", "the request's path and headers are over their limit of 32768 bytes"},
	500: {"Our fault. The daemon's log has the details under the request's id.", "internal error; the daemon's log has the details under this request's id"},
	501: {"This daemon cannot do it.", "mode k8s is not there yet"},
	503: {"Not now. See Retry-After.", "the daemon is starting and takes up its sessions; try again in a second"},
	507: {"A disk or a quota is full.", "the sandbox's disk is full"},
}

// document is the OpenAPI document of all routes.
func (s *surface) document() *huma.OpenAPI {
	doc := s.kit.Document()
	doc.Info = &huma.Info{
		Title: "Sandkasten: sandbox orchestrator", Version: "1",
		Description: "Sandboxes that have a name of their client's choice and outlive what they run in. Every path works with and without the slash at its end. " +
			"Unknown fields of requests are ignored, and null is as no field. Errors are {\"detail\"} or lists of texts by field. Times are RFC 3339 in UTC.",
		License: &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
	}
	doc.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"bearer":  {Type: "http", Scheme: "bearer"},
		"apiKey":  {Type: "apiKey", In: "header", Name: "X-Api-Key"},
		"session": {Type: "apiKey", In: "cookie", Name: "sessionid", Description: "Of who signed in. What changes something takes the header X-CSRFToken, too."},
	}
	doc.Components.Responses = map[string]*huma.Response{}
	for _, status := range usedErrors(doc) {
		e := errorMeanings[status]
		doc.Components.Responses[strconv.Itoa(status)] = &huma.Response{
			Description: cmp.Or(e.means, http.StatusText(status)),
			Content:     map[string]*huma.MediaType{"application/json": {Schema: errorSchema(status), Example: detail{e.example}}},
		}
	}
	schemas := doc.Components.Schemas.Map()
	delete(schemas, "ErrorBody") // which is the other dialect
	for _, schema := range schemas {
		schema.AdditionalProperties = nil
	}
	return doc
}

// usedErrors are the statuses that operations refer to.
func usedErrors(doc *huma.OpenAPI) (used []int) {
	seen := map[string]bool{}
	for _, item := range doc.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Delete, item.Put, item.Patch} {
			if op == nil {
				continue
			}
			for code, response := range op.Responses {
				if response.Ref == "" || seen[code] {
					continue
				}
				seen[code] = true
				if status, err := strconv.Atoi(code); err == nil {
					used = append(used, status)
				}
			}
		}
	}
	return used
}

// errorSchema is the form of errors with a status. Bad requests have two more.
func errorSchema(status int) *huma.Schema {
	texts := &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}}
	of := &huma.Schema{Type: huma.TypeObject, Required: []string{"detail"}, Properties: map[string]*huma.Schema{"detail": {Type: huma.TypeString}}}
	if status != http.StatusBadRequest {
		return of
	}
	return &huma.Schema{AnyOf: []*huma.Schema{of, {Type: huma.TypeObject, AdditionalProperties: texts}, texts}}
}

// serving answers with the document.
func serving(document func() []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if _, err := w.Write(document()); err != nil {
			api.Failed(r.Context(), err)
		}
	})
}

// Schema is that of a time, which may be null.
func (stamp) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time", Nullable: true, Examples: []any{"2026-11-21T09:00:00.000000Z"}}
}

// commandLine is a command as a request has it.
type commandLine string

// Schema says that it is a line or a list of words.
func (commandLine) Schema(huma.Registry) *huma.Schema {
	least := 1
	return &huma.Schema{
		Description: "A line for sh, or a list of words that is made one.", Examples: []any{"ls -la"},
		OneOf: []*huma.Schema{
			{Type: huma.TypeString, Extensions: map[string]any{"pattern": noNUL}},
			{Type: huma.TypeArray, MinItems: &least, Items: &huma.Schema{Type: huma.TypeString, Extensions: map[string]any{"pattern": noNUL}}},
		},
	}
}

// noNUL is what no program takes.
const noNUL = `^[^\x00]*$`
