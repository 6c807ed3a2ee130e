package auditlog

import (
	"slices"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/audit"
)

// TestTailOfChanges counts only lines of changes, also where others come between.
func TestTailOfChanges(t *testing.T) {
	dir := t.TempDir()
	log, err := audit.Open(audit.Options{Dir: dir, MaxBytes: 1 << 20, MaxFiles: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, route := range []string{"POST /v1/sessions", "GET /v1/sessions/{id}/fs/read", "GET /v1/sessions/{id}/terminal", "GET /v1/images", "DELETE /v1/sessions/{id}", "GET /v1/audit"} {
		log.Append(t.Context(), audit.Entry{Event: "answered", Owner: "alice", Route: route, Status: 200})
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := audit.Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		cmd  tailCmd
		want []string
	}{
		{tailCmd{Lines: 2, Changes: true}, []string{"GET /v1/sessions/{id}/terminal", "DELETE /v1/sessions/{id}"}},
		{tailCmd{Lines: 20, Changes: true}, []string{"POST /v1/sessions", "GET /v1/sessions/{id}/terminal", "DELETE /v1/sessions/{id}"}},
		{tailCmd{Lines: 2}, []string{"DELETE /v1/sessions/{id}", "GET /v1/audit"}},
	} {
		texts, seq, err := tt.cmd.last(files)
		if err != nil || seq != 6 {
			t.Fatalf("up to line %d, %v", seq, err)
		}
		var routes []string
		for _, text := range texts {
			routes = append(routes, strings.Split(text, "  ")[3])
		}
		if !slices.Equal(routes, tt.want) {
			t.Errorf("%+v: %v, want %v", tt.cmd, routes, tt.want)
		}
	}
}
