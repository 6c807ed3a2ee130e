package v1_test

import "testing"

// TestEveryOperationHasAGroup holds that the reference shows each operation once, and
// no group without one.
func TestEveryOperationHasAGroup(t *testing.T) {
	doc := readDocument(t, "openapi.json")
	operations := map[string]int{}
	for _, tag := range doc["tags"].([]any) {
		operations[tag.(schema)["name"].(string)] = 0
	}
	for path := range at(doc, "paths") {
		for method := range at(doc, "paths", path) {
			tags := words(at(doc, "paths", path, method)["tags"])
			if len(tags) != 1 {
				t.Errorf("%s %s has the tags %q", method, path, tags)
				continue
			}
			if _, declared := operations[tags[0]]; !declared {
				t.Errorf("%s %s has the tag %s, which the document does not describe", method, path, tags[0])
			}
			operations[tags[0]]++
		}
	}
	for name, n := range operations {
		if n == 0 {
			t.Errorf("the group %s has no operations", name)
		}
	}
	for path, want := range map[string]string{"/v1/sessions": "Sessions", "/v1/sessions/{id}/execs": "Commands", "/v1/workspaces/{id}/fs/read": "Files", "/healthz": "Daemon"} {
		if got := words(at(doc, "paths", path, "get")["tags"]); len(got) != 1 || got[0] != want {
			t.Errorf("%s is in %q, want %s", path, got, want)
		}
	}
}
