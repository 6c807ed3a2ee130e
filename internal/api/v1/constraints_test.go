package v1_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/api"
)

// What the daemon refuses as a matter of form the document forbids, too, so that who
// makes requests of the document makes none of these.
func TestSchemasForbidWhatIsRefused(t *testing.T) {
	s := start(t)
	path := s.create(t)
	doc := readDocument(t, "openapi.json")
	tests := []struct{ method, path, schema, body string }{
		{"POST", path + "/exec", "ExecRequest", `{"cmd":"a\u0000b"}`},
		{"POST", path + "/exec", "ExecRequest", `{"cmd":"true","output_file":"logs/"}`},
		{"POST", path + "/processes", "ProcessRequest", `{"cmd":["a\u0000"]}`},
		{"POST", path + "/processes", "ProcessRequest", `{"cmd":["true"],"cwd":"a\u0000"}`},
		{"POST", path + "/processes", "ProcessRequest", `{"cmd":["true"],"env":{"a-b":"x"}}`},
		{"POST", path + "/processes", "ProcessRequest", `{"cmd":["true"],"stdin":"a","stdin_base64":"YQ=="}`},
		{"POST", path + "/processes/stream", "ProcessRequest", `{"cmd":["true"],"output_file":"d/"}`},
		{"POST", path + "/execs/aaaaaaaaaaaaaaaaaaaaaaaaaa/stdin", "StdinRequest", `{"data":"a","data_base64":"YQ=="}`},
		{"POST", path + "/execs/aaaaaaaaaaaaaaaaaaaaaaaaaa/signal", "SignalRequest", `{"signal":"NONE"}`},
		{"POST", path + "/execs/aaaaaaaaaaaaaaaaaaaaaaaaaa/signal", "SignalRequest", `{"signal":65}`},
		{"POST", path + "/execs/aaaaaaaaaaaaaaaaaaaaaaaaaa/signal", "SignalRequest", `{"signal":true}`},
		{"POST", path + "/fs/write", "WriteRequest", `{"path":"d/","text":""}`},
		{"POST", path + "/fs/write", "WriteRequest", `{"path":"a"}`},
		{"POST", path + "/fs/write", "WriteRequest", `{"path":"a","text":"","content_base64":""}`},
		{"POST", path + "/fs/write", "WriteRequest", `{"path":"a","text":"","create":true,"append":true}`},
		{"POST", path + "/fs/edit", "EditRequest", `{"path":"a/","old":"a","new":"b"}`},
		{"POST", path + "/fs/mkdir", "MkdirRequest", `{"path":"a\u0000"}`},
		{"POST", path + "/fs/chmod", "ChmodRequest", `{"path":"a/","mode":"0644"}`},
		{"POST", path + "/fs/delete", "DeleteRequest", `{"path":"a/"}`},
		{"POST", path + "/fs/move", "MoveRequest", `{"from":"a/","to":"b"}`},
		{"POST", path + "/fs/move", "MoveRequest", `{"from":"a","to":"b/"}`},
		{"POST", path + "/fs/copy", "CopyRequest", `{"from":"a\u0000","to":"b"}`},
		{"POST", path + "/processes", "ProcessRequest", `{"cmd":null}`},
		{"POST", path + "/processes", "ProcessRequest", `{"cmd":["cat"],"stdin_base64":"YQ"}`},
		{"POST", path + "/processes", "ProcessRequest", `{"cmd":["true"],"user":"a b"}`},
		{"POST", path + "/execs/aaaaaaaaaaaaaaaaaaaaaaaaaa/stdin", "StdinRequest", `{"data_base64":"!"}`},
		{"POST", path + "/fs/write", "WriteRequest", `{"path":"a","content_base64":"!"}`},
		{"POST", "/v1/sessions", "CreateRequest", `{"env":{"1a":"x"}}`},
		{"POST", "/v1/sessions", "CreateRequest", `{"name":"-x"}`},
		{"POST", "/v1/sessions", "CreateRequest", `{"hostname":"a_b"}`},
		{"POST", "/v1/sessions", "CreateRequest", `{"hostname":"a-"}`},
		{"POST", "/v1/sessions", "CreateRequest", `{"workspace_id":".."}`},
		{"POST", "/v1/sessions", "CreateRequest", `{"restore_snapshot_id":"A 1"}`},
		{"POST", "/v1/sessions", "CreateRequest", `{"labels":{"":"x"}}`},
		{"POST", "/v1/sessions", "CreateRequest", `{"limits":{"pids":9},"cpu":1}`},
		{"PATCH", path, "UpdateRequest", `{"labels":{"a\nb":"x"}}`},
		{"POST", path + "/fork", "ForkRequest", `{"hostname":"-"}`},
		{"POST", path + "/fork", "ForkRequest", `{"env":{"a=b":"x"}}`},
		{"POST", "/v1/workspaces", "WorkspaceRequest", `{"id":".."}`},
		{"POST", "/v1/users", "UserRequest", `{"name":"Alice"}`},
		{"POST", "/v1/users", "UserRequest", `{"name":"x","email":"no address"}`},
		{"POST", "/v1/keys", "KeyRequest", `{"user":"alice","name":"a\n"}`},
		{"POST", "/v1/workspaces", "WorkspaceRequest", `{"labels":{"":"x"}}`},
		{"PUT", "/v1/secrets/x", "SecretRequest", `{"hosts":["a.example"],"value":"a-value-of-worth"}`},
		{"PUT", "/v1/secrets/x", "SecretRequest", `{"hosts":["a.example"],"header":"A","query":"b","value":"a-value-of-worth"}`},
		{"POST", path + "/snapshots", "SnapshotRequest", `{"name":"a b"}`},
		{"POST", path + "/snapshots", "SnapshotRequest", `{"include_paths":null}`},
	}
	for _, tt := range tests {
		got := s.do(t, tt.method, tt.path, tt.body)
		var e api.ErrorBody
		got.into(t, http.StatusBadRequest, &e)
		var body any
		if err := json.Unmarshal([]byte(tt.body), &body); err != nil {
			t.Fatal(err)
		}
		if allows(t, at(doc, "components", "schemas", tt.schema), body) {
			t.Errorf("%s allows %s, which is refused: %s", tt.schema, tt.body, e.Error)
		}
	}
	for name, raw := range at(doc, "components", "schemas") {
		examples, _ := raw.(schema)["examples"].([]any)
		if len(examples) > 0 && strings.HasSuffix(name, "Request") && !allows(t, raw.(schema), examples[0]) {
			t.Errorf("%s forbids its own example %v", name, examples[0])
		}
	}
}

// allows reports whether s allows v, as far as s says it with the words that
// package v1 adds by itself.
func allows(t *testing.T, s schema, v any) bool {
	t.Helper()
	every := func(list any) (found []bool) {
		schemas, _ := list.([]any)
		for _, one := range schemas {
			found = append(found, allows(t, one.(schema), v))
		}
		return found
	}
	if pattern, ok := s["pattern"].(string); ok {
		if text, ok := v.(string); ok && !regexp.MustCompile(pattern).MatchString(text) {
			return false
		}
	}
	switch n, isNumber := v.(float64); {
	case s["type"] == "string" && fmt.Sprintf("%T", v) != "string":
		return false
	case s["type"] == "integer" && !isNumber:
		return false
	case s["type"] == "array" && v == nil:
		return false
	case isNumber && s["maximum"] != nil && n > s["maximum"].(float64):
		return false
	case s["anyOf"] != nil && !slices.Contains(every(s["anyOf"]), true):
		return false
	case s["not"] != nil && allows(t, s["not"].(schema), v):
		return false
	}
	if list, ok := v.([]any); ok && s["items"] != nil {
		return !slices.ContainsFunc(list, func(item any) bool { return !allows(t, at(s, "items"), item) })
	}
	object, ok := v.(schema)
	if !ok {
		return true
	}
	for _, name := range words(s["required"]) {
		if _, ok := object[name]; !ok {
			return false
		}
	}
	for name, value := range object {
		if names := at(s, "propertyNames"); names != nil && !allows(t, names, name) {
			return false
		}
		if property := at(s, "properties", name); property != nil && !allows(t, property, value) {
			return false
		}
	}
	return true
}

// An error names a field as the document does, whatever is wrong with its value.
func TestFieldsAreTheDocuments(t *testing.T) {
	s := start(t)
	path := s.create(t)
	doc := readDocument(t, "openapi.json")
	requests := map[string]string{
		"CreateRequest": "/v1/sessions", "ForkRequest": path + "/fork", "UpdateRequest": path, "ExecRequest": path + "/exec",
		"ProcessRequest": path + "/processes", "WriteRequest": path + "/fs/write", "EditRequest": path + "/fs/edit",
		"MkdirRequest": path + "/fs/mkdir", "SnapshotRequest": path + "/snapshots", "WorkspaceRequest": "/v1/workspaces",
		"PreviewRequest": path + "/previews", "PauseRequest": path + "/pause", "SecretRequest": "/v1/secrets/x",
		"SizeRequest": path + "/execs/aaaaaaaaaaaaaaaaaaaaaaaaaa/resize", "WaitRequest": path + "/execs/aaaaaaaaaaaaaaaaaaaaaaaaaa/wait",
	}
	for name, url := range requests {
		method := "POST"
		switch name {
		case "UpdateRequest":
			method = "PATCH"
		case "SecretRequest":
			method = "PUT"
		}
		properties := at(doc, "components", "schemas", name, "properties")
		for field := range properties {
			for _, value := range []string{`1.0`, `1e1`, `1e300`, `-1`, `"x"`, `""`, `{}`, `{"a":1}`, `[]`, `[1]`, `[{"a":"b"}]`, `true`, `null`} {
				got := s.do(t, method, url, fmt.Sprintf(`{%q:%s}`, field, value))
				var e api.ErrorBody
				if got.status != http.StatusBadRequest {
					continue
				}
				got.into(t, http.StatusBadRequest, &e)
				first := regexp.MustCompile(`^[^.\[]*`).FindString(e.Field)
				if _, ok := properties[first]; !ok && e.Field != "" && e.Field != "the request body" {
					t.Errorf("%s with %s %s: field %q: %s", name, field, value, e.Field, e.Error)
				}
				if e.Field == "" {
					t.Errorf("%s with %s %s: no field: %s", name, field, value, e.Error)
				}
			}
		}
	}
}
