package linux

import (
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/disk"
	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// L08: a link in the place of a workspace's directory is not followed: neither to
// the host's files nor to those of the sandbox.
func TestL08_VolumeWithALink(t *testing.T) {
	d := root(t)
	for i, target := range []string{"/etc", "lost+found"} {
		spec := runtime.Spec{Image: "test", Workspace: runtime.WorkspaceID(fmt.Sprint("w", i))}
		makeWorkspace(t, d, spec.Workspace)
		volume, err := d.attachWorkspace(t.Context(), spec.Workspace)
		if err != nil {
			t.Fatal(err)
		}
		err = errors.Join(unix.Unlinkat(volume, disk.Workspace, unix.AT_REMOVEDIR), unix.Symlinkat(target, volume, disk.Workspace))
		sys.Close(volume)
		if err != nil {
			t.Fatal(err)
		}
		created := runtime.ID(fmt.Sprint("created", i))
		if _, err := d.Create(t.Context(), created, spec); err == nil {
			t.Errorf("a sandbox with a link to %s for its workspace sees:\n%s", target, session(t, d, created)("ls -a"))
		}
		create(t, d, "ready", runtime.Spec{})
		claimed := runtime.ID(fmt.Sprint("claimed", i))
		_, err = d.Claim(t.Context(), "ready", claimed, spec)
		out := session(t, d, claimed)("ls -A /workspace")
		if err == nil || out != "" {
			t.Errorf("a claimed sandbox with a link to %s for its workspace: %v, and it sees:\n%s", target, err, out)
		}
	}
}

// L09: while a ready sandbox gets its workspace, programs of a hostile image can run
// in it. They never get at what is beside the workspace in its volume.
func TestL09_VolumeOfAClaim(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.CheckHost(t)
	d := newEscapeDriver(t, probeLayer(t), testenv.BaseRootfs(t))
	makeWorkspace(t, d, "w")
	sh := create(t, d, "ready", runtime.Spec{})
	sh("mkfifo /tmp/ready; /opt/probe volume /tmp/ready > /tmp/seen 2>&1 & read -r line < /tmp/ready")
	s, err := d.readState("ready")
	if err != nil {
		t.Fatal(err)
	}
	spec := runtime.Spec{Workspace: "w"}
	for range 20 {
		c := &claiming{d: d, state: state{Spec: spec, Process: s.Process}, volume: -1}
		err := c.attach(t.Context())
		if err == nil {
			err = c.remount(t.Context())
		}
		sys.Close(c.volume)
		if err != nil {
			t.Fatal(err)
		}
	}
	if out := sh("kill $! 2>/dev/null; wait; cat /tmp/seen"); out != "" {
		t.Errorf("a program in it got at %q", out)
	}
}
