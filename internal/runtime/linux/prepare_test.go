package linux

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runtime/linux/disk"
	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// What was mounted on the host when a runner began to wait is free as soon as the host
// has unmounted it, also where the mounts of the host do not propagate.
func TestPreparedRunnersKeepNoDiskOfTheHostBusy(t *testing.T) {
	d := root(t)
	image := filepath.Join(testenv.DataDir(t), "volume.img")
	point := mountOfTheHost(t, d, image)
	p, err := d.prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.discard(); err != nil {
			t.Error(err)
		}
	}()
	if attached, err := disk.Attached(image); err != nil || !attached {
		t.Fatalf("attached: %v, %v", attached, err)
	}
	if err := sys.Unmount(point, 0); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "the disk is free", func() bool {
		attached, err := disk.Attached(image)
		return err == nil && !attached
	})
	mounts, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.process.PID), "mountinfo"))
	if err != nil || strings.Count(string(mounts), "\n") != 2 {
		t.Errorf("the runner that waits has mounted, %v:\n%s", err, mounts)
	}
}

// mountOfTheHost makes a volume and mounts it where the host's mounts go to no other
// namespace by themselves. It returns where.
func mountOfTheHost(t *testing.T, d *Driver, image string) string {
	t.Helper()
	if err := d.disks.MakeVolume(t.Context(), image, 64<<20); err != nil {
		t.Fatal(err)
	}
	alone := testenv.DataDir(t)
	if err := sys.Mount("tmpfs", alone, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sys.Unmount(alone, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := sys.Mount("", alone, "", unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	point := filepath.Join(alone, "disk")
	if err := os.Mkdir(point, 0o700); err != nil {
		t.Fatal(err)
	}
	volume, err := d.disks.OpenVolume(t.Context(), image)
	if err != nil {
		t.Fatal(err)
	}
	defer sys.Close(volume)
	at, err := sys.Open(unix.AT_FDCWD, point, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer sys.Close(at)
	if err := sys.MoveMount(volume, at); err != nil {
		t.Fatal(err)
	}
	return point
}
