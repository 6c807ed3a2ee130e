package v1_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// TestDocs holds that docs/api.md has an example of every route, and names
// every limit and code.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("routes*.go")
	if err != nil {
		t.Fatal(err)
	}
	var found [][]string
	for _, file := range files {
		routes, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		// Those of files and of one exec stand below paths of their own.
		found = append(found, regexp.MustCompile(`"((?:GET|POST|DELETE) /(?:v1|healthz|readyz|metrics|openapi)[^"]*)"`).FindAllStringSubmatch(string(routes), -1)...)
	}
	if len(found) < 20 {
		t.Fatalf("found %d routes", len(found))
	}
	for _, match := range found {
		if !strings.Contains(string(text), "`"+match[1]+"`") {
			t.Errorf("docs/api.md does not have `%s`", match[1])
		}
	}
	for _, code := range []string{
		"invalid_argument", "unauthenticated", "permission_denied", "not_found", "method_not_allowed", "request_timeout", "already_exists", "conflict", "precondition_failed",
		"too_large", "unsupported_media_type", "unprocessable", "resource_exhausted", "internal", "unimplemented", "unavailable", "insufficient_space", "bad_gateway", "gateway_timeout", "headers_too_large",
	} {
		if !strings.Contains(string(text), "`"+code+"`") {
			t.Errorf("docs/api.md does not have the code %s", code)
		}
	}
	for _, reason := range errdefs.Reasons {
		if !strings.Contains(string(text), "`"+string(reason)+"`") {
			t.Errorf("docs/api.md does not have the reason %s", reason)
		}
	}
}
