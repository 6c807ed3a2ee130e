package docker

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
)

// runtimeFlags give an engine two more names for its runtime: one that says what it is
// by its program, and one that does not.
func runtimeFlags(t *testing.T) []string {
	t.Helper()
	runc, err := exec.LookPath("runc")
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.Symlink(runc, other); err != nil {
		t.Fatal(err)
	}
	return []string{"--add-runtime=named=" + runc, "--add-runtime=unknown=" + other}
}

// wantNoNamespace wants NetNS to be Unimplemented for a reason.
func wantNoNamespace(t *testing.T, x *box, why string) {
	t.Helper()
	f, err := x.Sandbox.(runtime.Networked).NetNS(t.Context())
	if err == nil {
		t.Errorf("NetNS opened one; %v", f.Close())
		return
	}
	if !errdefs.Is(err, errdefs.Unimplemented) || !strings.Contains(errdefs.MessageOf(err), why) {
		t.Errorf("NetNS: %v, want %q", err, why)
	}
}

// testNamespace is what the suite cannot know: the runtime that a container was made
// with decides, and an engine may speak of processes that are not here.
func testNamespace(t *testing.T, d *Driver) {
	other := d.opts
	other.Runtime = "unknown"
	x := newBox(t, open(t, other), "unknown-runtime")
	wantNoNamespace(t, use(d, x.Sandbox), `runtime "unknown"`)
	opened, err := d.Open(t.Context(), x.ID()) // by a driver with another configuration
	if err != nil {
		t.Fatal(err)
	}
	wantNoNamespace(t, use(d, opened), `runtime "unknown"`)

	other.Runtime = "named"
	y := newBox(t, open(t, other), "named-runtime")
	f, err := y.Sandbox.(runtime.Networked).NetNS(t.Context())
	if err != nil {
		t.Fatalf("NetNS with a runtime of another name: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}

	got, err := d.inspect(t.Context(), y.ID())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(checkProcess(got.State.Pid, got.ID), d.checkRuntime(t.Context(), got.HostConfig)); err != nil {
		t.Error(err)
	}
	cause := errdefs.New(errdefs.NotFound, "no such process for the test")
	if err := d.whyNoProcess(t.Context(), y.ID(), got, cause); !errdefs.Is(err, errdefs.Unimplemented) {
		t.Errorf("a container that lives out of sight: %v", err)
	}
	if err := d.Stop(t.Context(), y.ID()); err != nil {
		t.Fatal(err)
	}
	if err := d.whyNoProcess(t.Context(), y.ID(), got, cause); !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("a container that has ended meanwhile: %v", err)
	}
}

// TestProcessOfAContainer: what an engine says of itself is not enough to enter a
// process's namespace.
func TestProcessOfAContainer(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	for name, c := range map[string]struct {
		groups, id string
		want       bool
	}{
		"cgroup v1":       {"9:name=systemd:/docker/" + id + "\n8:pids:/docker/" + id + "\n", id, true},
		"cgroup v2":       {"0::/system.slice/docker-" + id + ".scope\n", id, true},
		"seen from below": {"0::/../" + id + "\n", id, true},
		"another":         {"0::/docker/" + strings.Repeat("f", 64) + "\n", id, false},
		"the host":        {"0::/\n", id, false},
		"not an id":       {"0::/\n", "/", false},
		"no id":           {"0::/\n", "", false},
	} {
		if got := inContainer(c.groups, c.id); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if err := checkProcess(os.Getpid(), id); !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("our own process: %v", err)
	}
	if err := checkProcess(1<<30, id); !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("no process: %v", err)
	}
}
