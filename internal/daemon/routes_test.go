package daemon

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

var update = flag.Bool("update", false, "write testdata/routes.txt anew")

// All routes of all surfaces are in a file, so that who may call what, and for how long,
// shows in the diff of every change.
func TestRoutes(t *testing.T) {
	const file = "testdata/routes.txt"
	testenv.NeedsRoot(t)
	cfg := testConfig(t)
	cfg.Console.Enabled, cfg.Orchestrator.Enabled = true, true
	d, stop := start(t, cfg)
	var lines []string
	for _, s := range d.surfaces(nil, prometheus.NewRegistry()) {
		for _, r := range s.Routes {
			method, path, found := strings.Cut(r.Pattern, " ")
			if !found {
				method, path = "any", r.Pattern
			}
			does := ""
			if r.Acts {
				does = "acts"
			}
			lines = append(lines, strings.Join([]string{s.Name, path, method, r.Scope.String(), r.Class.String(), does}, "\t"))
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	slices.Sort(lines)
	var text bytes.Buffer
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, line := range lines {
		fmt.Fprintln(table, strings.TrimRight(line, "\t"))
	}
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text.Bytes(), want) {
		t.Errorf("the routes have changed; if that is meant, run go test ./internal/daemon -run TestRoutes -update and review the diff")
	}
}
