package linux

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/cgroup"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// named is a driver of an installation in a directory. Nobody closes it.
func named(t *testing.T, dir, node string) *Driver {
	t.Helper()
	program, err := os.ReadFile(testenv.Runner(t))
	if err != nil {
		t.Fatal(err)
	}
	testenv.ClaimNode(node)
	d, err := New(Options{DataDir: dir, Node: node, Runner: program, Images: layers{testenv.BaseRootfs(t)}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func closeDriver(t *testing.T, d *Driver) {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// A driver touches nothing that a record of another installation names: it came
// with a copy of its files.
func TestSandboxesOfAnotherInstallationAreNotTouched(t *testing.T) {
	d := root(t)
	sh := create(t, d, "s", runtime.Spec{})
	record, err := os.ReadFile(filepath.Join(d.dir("s"), stateFile))
	if err != nil {
		t.Fatal(err)
	}
	copied := named(t, testenv.DataDir(t), "0123456789ab")
	defer closeDriver(t, copied)
	if err := copied.claim("s"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(copied.dir("s"), stateFile), record, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(copied.Sweep(t.Context()), copied.Destroy(t.Context(), "s")); err != nil {
		t.Fatal(err)
	}
	if got := sh("echo lives"); strings.TrimSpace(got) != "lives" {
		t.Errorf("the original prints %q", got)
	}
}

// Two drivers of one identity would end each other's sandboxes.
func TestAnIdentityHasOneDriver(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.CheckHost(t)
	d := named(t, testenv.DataDir(t), "0123456789ab")
	defer closeDriver(t, d)
	other := named(t, testenv.DataDir(t), "0123456789ab")
	defer closeDriver(t, other)
	if err := d.Own(); err != nil {
		t.Fatal(err)
	}
	if err := other.Own(); !errors.Is(err, cgroup.ErrInUse) {
		t.Errorf("another driver: %v", err)
	}
}
