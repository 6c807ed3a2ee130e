// Package testenv is what tests need from the machine: root or a reason to
// skip, a directory on a real disk, a small root filesystem, our binaries, and
// a check that nothing was left behind. Only tests and what runs them import it. Fakes and
// conformance suites do not belong here; they live beside what they imitate.
package testenv

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// RootMode is the environment variable that decides what NeedsRoot and
// Unsupported do. "1" turns every skip into a failure, as in CI; "0" skips all
// root tests; anything else runs what this machine can and skips the rest.
const RootMode = "SANDKASTEN_TEST_ROOT"

// NeedsRoot ends the test unless it runs as root: as a skip, or as a failure
// where RootMode is "1". It is the first line of every test that does
// something only root may do.
func NeedsRoot(t testing.TB) {
	t.Helper()
	if os.Getenv(RootMode) == "0" {
		t.Skip(RootMode + "=0: root tests are off")
	}
	if os.Geteuid() != 0 {
		Unsupported(t, "needs root")
	}
}

// NeedsXFS ends the test unless the host can make and mount XFS.
func NeedsXFS(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("mkfs.xfs"); err != nil {
		Unsupported(t, "no mkfs.xfs (package xfsprogs)")
	}
	// The kernel loads the module when it is first used, or has it built in.
	known, err := os.ReadFile("/proc/filesystems")
	if err != nil || strings.Contains(string(known), "xfs") {
		return
	}
	if out, err := exec.CommandContext(t.Context(), "modprobe", "xfs").CombinedOutput(); err != nil {
		Unsupported(t, "the kernel has no XFS: %v: %s", err, out)
	}
}

// Unsupported ends the test because this machine cannot run it: as a skip, or
// as a failure where RootMode is "1". Tests skip through it and through
// NeedsRoot only, so that in CI nothing is skipped in silence; archtest sees
// to that.
func Unsupported(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv(RootMode) == "1" {
		t.Fatalf(RootMode+"=1 and this machine cannot run the test: "+format, args...)
	}
	t.Skipf(format, args...)
}
