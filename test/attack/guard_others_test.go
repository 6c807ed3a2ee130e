package attack

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

// What other programs of the host make beside the battery is not taken for its cases',
// and what a case makes is.
func TestGuardNamesItsOwn(t *testing.T) {
	testenv.NeedsRoot(t)
	w := theBattery(t)
	w.guarding.Lock()
	defer w.guarding.Unlock()
	before, err := w.steadyHost()
	if err != nil {
		t.Fatal(err)
	}
	left := func() []string {
		now, err := w.readHost()
		if err != nil {
			t.Fatal(err)
		}
		if now.loops > before.loops {
			t.Errorf("%d loop devices instead of %d", now.loops, before.loops)
		}
		return slices.DeleteFunc(now.things, func(thing string) bool { return slices.Contains(before.things, thing) })
	}

	foreign, err := os.MkdirTemp("/var/tmp", "sandkasten-other")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(foreign); err != nil {
			t.Error(err)
		}
	})
	makeDevice(t, "skother0")
	image := filepath.Join(foreign, "image")
	if err := os.WriteFile(image, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	mounted := filepath.Join(foreign, "sandboxes")
	if err := os.Mkdir(mounted, 0o700); err != nil {
		t.Fatal(err)
	}
	onHost(t, "mkfs.ext4", "-q", image)
	onHost(t, "mount", "-o", "loop", image, mounted)
	t.Cleanup(func() { onHost(t, "umount", mounted) })
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/pids"} {
		if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err != nil {
			continue
		}
		group := filepath.Join(root, "sandkasten-other", testenv.NodeName(foreign), "sandbox")
		if err := os.MkdirAll(group, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			for dir := group; filepath.Base(dir) != filepath.Base(root); dir = filepath.Dir(dir) {
				if err := os.Remove(dir); err != nil {
					t.Error(err)
				}
			}
		})
	}
	if found := left(); len(found) > 0 {
		t.Errorf("taken for the battery's: %q", found)
	}

	makeDevice(t, deviceName)
	if found := left(); !slices.Equal(found, []string{"/sys/class/net/" + deviceName}) {
		t.Errorf("of a device that an attack has made it finds %q", found)
	}
}

// makeDevice makes a network device that goes with the test, of a kind that the kernel knows.
func makeDevice(t *testing.T, name string) {
	t.Helper()
	for _, kind := range []string{"dummy", "bridge", "veth"} {
		if exec.CommandContext(t.Context(), "ip", "link", "add", name, "type", kind).Run() == nil {
			t.Cleanup(func() { onHost(t, "ip", "link", "del", name) })
			return
		}
	}
	t.Fatal("no network device can be made")
}

// onHost runs a program on the host.
func onHost(t *testing.T, argv ...string) {
	t.Helper()
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil { //nolint:noctx // a clean-up, too
		t.Errorf("%q: %v\n%s", argv, err, out)
	}
}
