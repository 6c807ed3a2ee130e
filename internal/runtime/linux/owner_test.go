package linux

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/cgroup"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/ids"
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

// What an installation uses of the host's ids shows to the others by its control groups.
func TestIDsOfAnotherInstallationsSandboxes(t *testing.T) {
	d := root(t)
	create(t, d, "s", runtime.Spec{})
	s, err := d.readState("s")
	if err != nil {
		t.Fatal(err)
	}
	other := named(t, testenv.DataDir(t), "0123456789ab")
	defer closeDriver(t, other)
	its, _ := ids.Span(int(s.IDs))
	uses := func(node string, span int) bool {
		return other.usesIDs(node, func(id int) bool { n, ok := ids.Span(id); return ok && n == span })
	}
	if !uses(d.opts.Node, its) || uses(d.opts.Node, its+1) {
		t.Errorf("it uses span %d: %v, and the next one: %v", its, uses(d.opts.Node, its), uses(d.opts.Node, its+1))
	}
	if uses("nobody", its) {
		t.Error("an installation that never was uses ids")
	}
}

// A client hears how many others have, and the log who they are.
func TestNoIDsLeft(t *testing.T) {
	own, shared := &ids.ExhaustedError{Used: 3968, Own: 31}, &ids.ExhaustedError{Own: 3, Used: 300, Others: map[string]int{"feed": 28}}
	for _, c := range []struct {
		err        *ids.ExhaustedError
		with, less string
	}{
		{own, "this installation uses those of 3968; destroy or stop sessions", "installations"},
		{shared, "other installations of Sandkasten hold 28 spans; try again later, or have the host's operator", "destroy"},
	} {
		err := classify(fmt.Errorf("create: %w", c.err))
		text := errdefs.MessageOf(err)
		if !errdefs.Is(err, errdefs.Unavailable) || !strings.Contains(text, c.with) || strings.Contains(text, c.less) || strings.Contains(text, "feed") {
			t.Errorf("%q", text)
		}
	}
	if log := classify(shared).Error(); !strings.Contains(log, "installation feed has 28") {
		t.Errorf("the log says %q", log)
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
