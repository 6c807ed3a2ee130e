package linux

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandkasten/sandkasten/internal/runtime"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares v with testdata/name.
func golden(t *testing.T, name string, v any) {
	t.Helper()
	got, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
		t.Errorf("%s (-want +got); `go test -update` accepts it:\n%s", name, diff)
	}
}

// someHost has two of the paths that hosts may or may not have.
func someHost(p string) bool {
	return p == "/proc/cmdline" || p == "/proc/sys" || p == "/proc/irq"
}

func TestPlanMounts(t *testing.T) {
	limits := runtime.Limits{MemoryMB: 512}
	golden(t, "mounts.json", planMounts(runtime.Spec{Limits: limits}))
	golden(t, "mounts-readonly.json", planMounts(runtime.Spec{Limits: limits, ReadonlyRoot: true}))
	golden(t, "mounts-workspace.json", planMounts(runtime.Spec{Limits: limits, Workspace: "w"}))
	golden(t, "masks.json", planMasks(someHost))
}
