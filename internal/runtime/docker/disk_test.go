package docker

import (
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/system"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// TestEngineDisk is an engine whose storage has quotas: the limit holds for root
// and workspace together, whatever becomes of the sandbox.
func TestEngineDisk(t *testing.T) {
	testenv.NeedsRoot(t)
	d := open(t, options(t, testenv.StartEngineOnBtrfs(t)))
	if err := d.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !d.LimitsDisk(false) || d.LimitsDisk(true) {
		t.Fatal("it does not know what the engine can limit")
	}
	x := newBox(t, d, "limited")
	x.run(t, "head -c 20000000 /dev/urandom >/opt/half && head -c 20000000 /dev/urandom >/workspace/half && sync")
	// The file system counts when it writes out, so one write may go over it.
	const fill = "head -c 60000000 /dev/urandom >%/more && sync %/more && head -c 10000 /dev/urandom >%/yet && sync %/yet"
	for _, dir := range []string{"/opt", "/workspace"} {
		untilRefused(t, x, strings.ReplaceAll(fill, "%", dir), "rm -f "+dir+"/more "+dir+"/yet; sync")
	}
	other := newBox(t, d, "other")
	other.run(t, "head -c 20000000 /dev/urandom >/workspace/half")
	stats, err := x.Stats(t.Context())
	if err != nil || stats.DiskLimit != 64<<20 || stats.DiskBytes < 40_000_000 || stats.DiskBytes > 64<<20 {
		t.Errorf("%+v, %v", stats, err)
	}
	larger := testSpec()
	larger.Limits.DiskMB *= 2
	if _, err := d.Claim(t.Context(), "other", "claimed", larger); !errdefs.Is(err, errdefs.Unimplemented) {
		t.Errorf("Claim with another limit: %v", err)
	}
	checkDiskFork(t, d)
	// A workspace that is a directory may be gone when the sandbox starts again.
	x.run(t, "cd /; rm -rf /workspace && ln -s /etc /workspace")
	if err := x.client.Close(); err != nil {
		t.Error(err)
	}
	if err := d.Stop(t.Context(), "limited"); err != nil {
		t.Fatal(err)
	}
	sandbox, err := d.Start(t.Context(), "limited")
	if err != nil {
		t.Fatal(err)
	}
	again := use(d, sandbox)
	defer again.client.Close()
	if got := again.run(t, "ls -A /workspace; stat -c %F /workspace; stat -c %s /opt/half"); got != "directory\n20000000" {
		t.Errorf("started again: %q", got)
	}
}

// checkDiskFork: forks have the limit and what the source has taken of it, and
// share both parts with it.
func checkDiskFork(t *testing.T, d *Driver) {
	t.Helper()
	made, err := d.Fork(t.Context(), "limited", []runtime.Branch{{ID: "fork"}}, testSpec())
	if err != nil {
		t.Fatal(err)
	}
	fork := use(d, made.Sandboxes[0])
	defer func() {
		if err := fork.destroy(); err != nil {
			t.Error(err)
		}
	}()
	if made.Copied {
		t.Error("the workspace was copied")
	}
	fork.run(t, "[ $(stat -c %s /workspace/half) = 20000000 ] && [ $(stat -c %s /opt/half) = 20000000 ]")
	untilRefused(t, fork, "head -c 60000000 /dev/urandom >/workspace/more && sync && head -c 10000 /dev/urandom >/workspace/yet && sync", "rm -f /workspace/more /workspace/yet; sync")
}

// untilRefused writes more than the limit until that is refused: for as long as the
// file system counts anew, which docs/docker.md tells of, it is not.
func untilRefused(t *testing.T, x *box, fill, clear string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		out, record := x.try(t, "("+fill+") 2>&1")
		x.run(t, clear)
		if record.ExitCode != 0 {
			if record.DiskFull { // Btrfs says what the whole file system has left
				t.Errorf("%+v: other than docs/docker.md has it", record)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("more than the limit was written: %q", out)
			return
		}
	}
}

// TestLearnDisk: an engine without quotas is not asked to try.
func TestLearnDisk(t *testing.T) {
	d := offline(t)
	for name, info := range map[string]system.Info{
		"overlay2 on ext4": {Driver: "overlay2", DriverStatus: [][2]string{{"Backing Filesystem", "extfs"}}},
		"containerd's":     {Driver: "overlayfs"},
		"vfs":              {Driver: "vfs"},
	} {
		if err := d.learnDisk(t.Context(), info); err != nil || d.LimitsDisk(false) {
			t.Errorf("%s: %v, limits %v", name, err, d.LimitsDisk(false))
		}
	}
	for name, info := range map[string]system.Info{
		"overlay2 on XFS": {Driver: "overlay2", DriverStatus: [][2]string{{"Backing Filesystem", "xfs"}}},
		"btrfs":           {Driver: "btrfs"},
	} {
		if err := d.learnDisk(t.Context(), info); err == nil {
			t.Errorf("%s: nothing was tried", name)
		}
	}
}
