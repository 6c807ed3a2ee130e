package orchestrator_test

import (
	"bytes"
	"flag"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/accounts"
	"github.com/sandkasten/sandkasten/internal/api/openapitest"
	surface "github.com/sandkasten/sandkasten/internal/api/orchestrator"
)

var update = flag.Bool("update", false, "write openapi.json anew")

const documentPath = "/api/sandbox/openapi.json"

// TestOpenAPI compares the document with its copy in the repository, so that every
// change of the contract shows in a diff. It needs no key.
func TestOpenAPI(t *testing.T) {
	got := start(t).do("GET", documentPath, "", header("X-Api-Key", ""))
	if got.status != http.StatusOK || got.header.Get("Content-Type") != "application/json" {
		t.Fatalf("%d %v", got.status, got.header)
	}
	if *update {
		if err := os.WriteFile("openapi.json", []byte(got.body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal([]byte(got.body), want) {
		t.Error("the OpenAPI document has changed; if that is meant, run go test ./internal/api/orchestrator -update and review the diff")
	}
	for _, name := range []string{"$schema", "ErrorModel", "ErrorDetail", "ErrorBody"} {
		if strings.Contains(got.body, name) {
			t.Errorf("the document has %s, which is not of this surface", name)
		}
	}
}

// TestEveryRouteIsDocumented: each route is in the document, and there is nothing else.
func TestEveryRouteIsDocumented(t *testing.T) {
	document := readDocument(t)
	routes := map[string]bool{}
	for _, route := range surface.New(surface.Options{Accounts: &accounts.Accounts{}}).Routes {
		method, path, _ := strings.Cut(strings.TrimSuffix(route.Pattern, "{$}"), " ")
		if path == documentPath {
			continue
		}
		routes[method+" "+strings.TrimSuffix(path, "/")] = true
		if document.Find(method, path) == nil {
			t.Errorf("%s is not in the document", route.Pattern)
		}
	}
	for _, op := range document.Operations {
		if !routes[op.Method+" "+strings.TrimSuffix(op.Path, "/")] {
			t.Errorf("%s %s is no route", op.Method, op.Path)
		}
	}
}

func readDocument(tb testing.TB) *openapitest.Document {
	tb.Helper()
	text, err := os.ReadFile("openapi.json")
	if err != nil {
		tb.Fatal(err)
	}
	document, err := openapitest.Parse(text)
	if err != nil {
		tb.Fatal(err)
	}
	return document
}
