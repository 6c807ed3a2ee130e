package v1_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write openapi.json anew")

// TestOpenAPI compares the document with its copy in the repository, so that
// every change of the contract shows in a diff.
func TestOpenAPI(t *testing.T) {
	got := start(t).do(t, "GET", "/openapi.json", "").body
	if *update {
		if err := os.WriteFile("openapi.json", got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("the OpenAPI document has changed; if that is meant, run go test ./internal/api/v1 -update and review the diff")
	}
}

// document is the part of OpenAPI that the tests look at.
type document struct {
	OpenAPI string
	Paths   map[string]map[string]struct {
		OperationID string
		Security    []map[string][]string
		Responses   map[string]json.RawMessage
		RequestBody struct {
			Content map[string]json.RawMessage
		}
	}
	Components struct {
		Schemas map[string]struct {
			Properties map[string]struct{ Description string }
		}
		Responses map[string]json.RawMessage
	}
}

func TestOpenAPIIsWhole(t *testing.T) {
	raw := start(t).do(t, "GET", "/openapi.json", "").body
	var doc document
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1") {
		t.Errorf("openapi %q", doc.OpenAPI)
	}
	for path, item := range doc.Paths {
		for method, op := range item {
			for _, status := range []string{"400", "401", "429", "500", "503"} {
				if len(op.Security) > 0 && op.Responses[status] == nil {
					t.Errorf("%s %s does not document status %s", method, path, status)
				}
			}
			bodiless := slices.Contains([]string{"cancel", "resume", "stop", "start", "heartbeat", "sign-out", "interrupt", "restart"}, path[strings.LastIndexByte(path, '/')+1:])
			if method == "post" && len(op.RequestBody.Content) == 0 && !bodiless {
				t.Errorf("%s %s has no request body", method, path)
			}
		}
	}
	for _, name := range []string{"$schema", "ErrorModel", "ErrorDetail"} {
		if bytes.Contains(raw, []byte(name)) {
			t.Errorf("the document has %s, which is huma's and not ours", name)
		}
	}
	// Every reference leads somewhere.
	for _, part := range strings.Split(string(raw), `"$ref": "#/components/`)[1:] {
		kind, name, _ := strings.Cut(part[:strings.IndexByte(part, '"')], "/")
		_, schema := doc.Components.Schemas[name]
		_, response := doc.Components.Responses[name]
		if (kind == "schemas") != schema || (kind == "responses") != response {
			t.Errorf("reference to %s/%s, which does not exist", kind, name)
		}
	}
}

// The files of a workspace have the parameters of a session's, but for the id.
func TestWorkspacesAreNoSessions(t *testing.T) {
	for path, item := range at(readDocument(t, "openapi.json"), "paths") {
		text, err := json.Marshal(item)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(path, "/v1/workspaces/") && bytes.Contains(text, []byte("The session's id")) {
			t.Errorf("%s takes a session's id", path)
		}
	}
}

// TestEveryBodyHasAnExample looks for what a reader could not copy.
func TestEveryBodyHasAnExample(t *testing.T) {
	doc := readDocument(t, "openapi.json")
	for name, raw := range at(doc, "components", "schemas") {
		examples, _ := raw.(schema)["examples"].([]any)
		if len(examples) == 0 {
			t.Errorf("schema %s has no example", name)
			continue
		}
		example := examples[0].(schema)
		for field, value := range example {
			if value == "" && field != "stderr" {
				t.Errorf("schema %s: the example of %s is empty; give the field one", name, field)
			}
		}
		for _, field := range words(raw.(schema)["required"]) {
			if _, ok := example[field]; !ok {
				t.Errorf("schema %s: the example has no %s, which is required", name, field)
			}
		}
	}
	for path := range at(doc, "paths") {
		for method := range at(doc, "paths", path) {
			op := at(doc, "paths", path, method)
			for media := range at(op, "requestBody", "content") {
				checkExample(t, method+" "+path+" request", media, at(op, "requestBody", "content", media))
			}
			for status := range at(op, "responses") {
				for media := range at(op, "responses", status, "content") {
					checkExample(t, method+" "+path+" "+status, media, at(op, "responses", status, "content", media))
				}
			}
		}
	}
}

// checkExample wants an example of its own or a schema that has one. Bytes are
// bytes.
func checkExample(t *testing.T, where, media string, body schema) {
	t.Helper()
	text := media == "application/json" || media == "text/event-stream"
	if text && body["example"] == nil && at(body, "schema")["$ref"] == nil && at(body, "schema", "items")["$ref"] == nil {
		t.Errorf("%s: %s has no example", where, media)
	}
}
