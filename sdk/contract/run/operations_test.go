package main

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"testing"
)

// leftOut says which operations of the API some SDKs do not call, and why.
type leftOut struct {
	Operations []string `json:"operations"`
	SDKs       []string `json:"sdks"`
	Why        string   `json:"why"`
}

// checkers are the tests that hold each SDK to operations.json: what is in the API and
// not there, the SDK has to call.
var checkers = map[string]string{
	"typescript": "../../typescript/test/unit/operations.test.mjs",
	"python":     "../../python/tests/test_operations.py",
	"go":         "../../go/endpoints_test.go",
}

// TestOperationsLeftOut finds what of operations.json is about nothing.
func TestOperationsLeftOut(t *testing.T) {
	var document struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	read(t, "../../../internal/api/v1/openapi.json", &document)
	known := map[string]bool{}
	for _, methods := range document.Paths {
		for _, operation := range methods {
			known[operation.OperationID] = true
		}
	}
	if len(known) < 50 {
		t.Fatalf("the API has %d operations", len(known))
	}
	text, err := os.ReadFile("../operations.json")
	if err != nil {
		t.Fatal(err)
	}
	var table struct {
		LeftOut []leftOut `json:"left_out"`
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&table); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, row := range table.LeftOut {
		if row.Why == "" || len(row.SDKs) == 0 {
			t.Errorf("%q: no reason, or no SDK", row.Operations)
		}
		for _, sdk := range row.SDKs {
			if checkers[sdk] == "" {
				t.Errorf("%q: there is no SDK %q", row.Operations, sdk)
			}
		}
		for _, operation := range row.Operations {
			if !known[operation] || seen[operation] {
				t.Errorf("operation %q is not in the API, or in two rows", operation)
			}
			seen[operation] = true
		}
	}
}

// TestEverySDKIsHeldToTheOperations: the tests in its own language read both files.
func TestEverySDKIsHeldToTheOperations(t *testing.T) {
	for sdk, checker := range checkers {
		text, err := os.ReadFile(checker)
		if err != nil {
			t.Errorf("%s: %v", sdk, err)
			continue
		}
		for _, name := range []string{"operations.json", "openapi.json", `"` + sdk + `"`} {
			if !bytes.Contains(text, []byte(name)) {
				t.Errorf("%s does not read %s", checker, name)
			}
		}
	}
	entries, err := os.ReadDir("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if name := entry.Name(); checkers[name] == "" && !slices.Contains([]string{"contract"}, name) {
			t.Errorf("sdk/%s is held to nothing", name)
		}
	}
}

func read(t *testing.T, path string, out any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, out); err != nil {
		t.Fatal(err)
	}
}
