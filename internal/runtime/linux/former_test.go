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

// asBefore makes the record of a sandbox one that versions without an identity
// have written.
func asBefore(t *testing.T, d *Driver, id runtime.ID) {
	t.Helper()
	file := filepath.Join(d.dir(id), stateFile)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	old := strings.Replace(string(text), `"node":"`+d.opts.Node+`",`, "", 1)
	if old == string(text) {
		t.Fatalf("the record names no installation: %s", text)
	}
	if err := os.WriteFile(file, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A daemon that has an identity takes up the sandboxes of one that had none, with
// their groups, and leaves alone what else is in the tree that was named by a path.
func TestSandboxesOfVersionsWithoutIdentityAreTakenUp(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.CheckHost(t)
	dir := testenv.DataDir(t)
	d := named(t, dir, "")
	sh := create(t, d, "old", runtime.Spec{})
	sh("v=kept")
	asBefore(t, d, "old")
	foreign := d.cgroups.Group("foreign") // of a daemon that sees another directory by that path
	if err := foreign.Create(groupLimits(d.opts.Defaults), 0); err != nil {
		t.Fatal(err)
	}
	closeDriver(t, d)
	d = named(t, dir, "abcdef012345")
	defer closeDriver(t, d)
	if err := d.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if there, err := foreign.Exists(); err != nil || !there {
		t.Errorf("the group of another daemon is there: %v, %v", there, err)
	}
	if err := foreign.Remove(cgroupTimeout); err != nil {
		t.Fatal(err)
	}
	sb, err := d.Open(t.Context(), "old")
	if err != nil {
		t.Fatal(err)
	}
	if found := toldOf(t, d, os.Getpid()); found != "" {
		t.Errorf("found %q", found)
	}
	if st, err := sb.Stats(t.Context()); err != nil || st.MemoryBytes == 0 || st.Pids == 0 {
		t.Errorf("%+v, %v", st, err)
	}
	pauser := sb.(runtime.Pauser)
	if err := errors.Join(pauser.Pause(t.Context()), pauser.Resume(t.Context())); err != nil {
		t.Error(err)
	}
	if got := sh("echo $v"); strings.TrimSpace(got) != "kept" {
		t.Errorf("its shell has %q", got)
	}
	if err := d.Stop(t.Context(), "old"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Start(t.Context(), "old"); err != nil {
		t.Fatal(err)
	}
	if there, err := d.cgroups.Group("old").Exists(); err != nil || !there {
		t.Errorf("started again, its group is where they are now: %v, %v", there, err)
	}
	if err := d.Destroy(t.Context(), "old"); err != nil {
		t.Fatal(err)
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
