package linux

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/disk"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

func makeWorkspace(t *testing.T, d *Driver, id runtime.WorkspaceID) {
	t.Helper()
	if err := d.CreateWorkspace(t.Context(), id, 64); err != nil {
		t.Fatal(err)
	}
}

// Destroy discards what its sandbox has not written yet. What it must never
// discard is what the sandbox wrote to a workspace.
func TestDestroyDiscardsTheDiskAndNotTheWorkspace(t *testing.T) {
	d := root(t)
	makeWorkspace(t, d, "w")
	spec := runtime.Spec{Workspace: "w"}
	stays := create(t, d, "stays", spec)
	sh := create(t, d, "goes", spec)
	sh("head -c 8000000 /dev/zero > big; echo kept > f; head -c 8000000 /dev/zero > /tmp/scratch")

	s, err := d.readState("goes")
	if err != nil {
		t.Fatal(err)
	}
	opened := d.openDisk("goes", s)
	if opened < 0 {
		t.Fatal("its disk cannot be opened")
	}
	var onDisk, onWorkspace unix.Stat_t
	if err := unix.Fstat(opened, &onDisk); err != nil {
		t.Fatal(err)
	}
	if err := unix.Stat("/proc/"+strconv.Itoa(s.Process.PID)+"/root/workspace", &onWorkspace); err != nil {
		t.Fatal(err)
	}
	if onDisk.Dev == onWorkspace.Dev {
		t.Error("what is taken for the disk is the workspace")
	}
	if err := unix.Close(opened); err != nil {
		t.Fatal(err)
	}

	if err := d.Destroy(t.Context(), "goes"); err != nil {
		t.Fatal(err)
	}
	if out := stays("cat f; wc -c < big; echo more > g && sync && echo written"); out != "kept\n8000000\nwritten\n" {
		t.Errorf("the other sandbox finds %q", out)
	}
	if err := d.Destroy(t.Context(), "stays"); err != nil {
		t.Fatal(err)
	}
	if out := create(t, d, "later", spec)("cat f g; wc -c < big"); out != "kept\nmore\n8000000\n" {
		t.Errorf("a later sandbox finds %q", out)
	}
}

// Sandboxes of other images, with other ids on the host, see the same owners.
func TestWorkspaceOfSeveralImages(t *testing.T) {
	d := root(t)
	makeWorkspace(t, d, "w")
	spec := runtime.Spec{Workspace: "w"}
	a := create(t, d, "a", spec)
	a("echo a > f; chown 33:44 f; chmod 4755 f; mkdir d; chmod 1777 d")
	layer := testenv.DataDir(t)
	if err := os.WriteFile(filepath.Join(layer, "other-image"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	d.opts.Images = layers{layer, testenv.BaseRootfs(t)}
	b := create(t, d, "b", spec)
	if out := b("ls /other-image; stat -c '%u:%g %a' f d; cat f"); out != "/other-image\n33:44 4755\n0:0 1777\na\n" {
		t.Errorf("the other image sees %q", out)
	}
	ids := map[string]bool{}
	for _, id := range []runtime.ID{"a", "b"} {
		s, err := d.readState(id)
		if err != nil {
			t.Fatal(err)
		}
		ids[strconv.Itoa(int(s.IDs))] = true
	}
	if len(ids) != 2 {
		t.Error("both sandboxes have the same ids on the host")
	}
}

// L07: nothing of a workspace is mounted where the host could see it, a program
// there gains no rights, and a device there is none.
func TestL07_Workspace(t *testing.T) {
	d := root(t)
	makeWorkspace(t, d, "w")
	sh := create(t, d, "a", runtime.Spec{Workspace: "w"})
	if out := sh("grep ' /workspace ' /proc/self/mountinfo"); !strings.Contains(out, "nosuid") || !strings.Contains(out, "nodev") || strings.Contains(out, d.opts.DataDir) {
		t.Errorf("mounted as %q", out)
	}
	// Neither the volume's lost+found nor a directory of it above the workspace.
	if out := sh("ls -A; cd ..; pwd; test . -ef / && echo root"); out != "/\nroot\n" {
		t.Errorf("more than the workspace's own files can be seen: %q", out)
	}
	host, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.readState("a")
	if err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat("/proc/"+strconv.Itoa(s.Process.PID)+"/root/workspace", &st); err != nil {
		t.Fatal(err)
	}
	if device := " " + strconv.Itoa(int(unix.Major(st.Dev))) + ":" + strconv.Itoa(int(unix.Minor(st.Dev))) + " "; strings.Contains(string(host), device) {
		t.Errorf("the host has a mount of%sof the workspace", device)
	}
	if fi, err := os.Stat(d.workspaces); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("the workspaces' directory: %v, %v", fi.Mode(), err)
	}
	// Neither another workspace nor a sandbox without one sees it.
	sh("echo secret > f")
	makeWorkspace(t, d, "other")
	for id, spec := range map[runtime.ID]runtime.Spec{"b": {Workspace: "other"}, "c": {}} {
		if out := create(t, d, id, spec)("ls -A"); out != "" {
			t.Errorf("sandbox %s sees %q", id, out)
		}
	}
}

func TestWorkspacesThatCannotBeUsed(t *testing.T) {
	d := root(t)
	for _, id := range []runtime.WorkspaceID{"", "..", "a/b", "."} {
		err := d.CreateWorkspace(t.Context(), id, 64)
		if !errdefs.Is(err, errdefs.InvalidArgument) {
			t.Errorf("CreateWorkspace(%q): %v", id, err)
		}
		if err := d.DestroyWorkspace(t.Context(), id); !errdefs.Is(err, errdefs.InvalidArgument) {
			t.Errorf("DestroyWorkspace(%q): %v", id, err)
		}
	}
	makeWorkspace(t, d, "damaged")
	image := filepath.Join(d.workspaceDir("damaged"), diskFile)
	if err := os.Truncate(image, 512); err != nil {
		t.Fatal(err)
	}
	makeWorkspace(t, d, "gone")
	if err := os.Remove(filepath.Join(d.workspaceDir("gone"), diskFile)); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[runtime.WorkspaceID]errdefs.Code{
		"damaged": errdefs.Unavailable, "gone": errdefs.NotFound, "never": errdefs.NotFound,
	} {
		_, err := d.Create(t.Context(), "user", runtime.Spec{Image: "test", Workspace: id})
		if errdefs.CodeOf(err) != want {
			t.Errorf("Create with %s: %v, want %s", id, err, want)
		}
		if err := d.DestroyWorkspace(t.Context(), id); err != nil {
			t.Errorf("DestroyWorkspace(%s): %v", id, err)
		}
	}
}

// A restart of the daemon finds the device that a living sandbox has.
func TestWorkspaceAfterARestart(t *testing.T) {
	d := root(t)
	makeWorkspace(t, d, "w")
	spec := runtime.Spec{Workspace: "w"}
	a := create(t, d, "a", spec)
	a("echo a > f")
	again, err := New(d.opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	})
	b := create(t, again, "b", spec)
	b("echo b >> f")
	if out := a("cat f"); out != "a\nb\n" {
		t.Errorf("the older sandbox sees %q", out)
	}
	loops, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, file := range loops {
		if text, err := os.ReadFile(file); err == nil && strings.HasPrefix(string(text), filepath.Join(d.workspaceDir("w"), diskFile)) {
			n++
		}
	}
	if attached, err := disk.Attached(filepath.Join(d.workspaceDir("w"), diskFile)); err != nil || !attached || n != 1 {
		t.Errorf("%d devices have it, attached %v, %v", n, attached, err)
	}
}
