// Package packages installs, upgrades and removes the packages that the
// project makes, as administrators do, in a root file system of their own.
// What the service does under systemd is tested in test/vm.
package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestPackages runs a script for each kind of package, which gets the
// directory with two versions of it, and a root file system to install them in.
func TestPackages(t *testing.T) {
	testenv.NeedsRoot(t)
	dir := t.TempDir()
	for _, version := range []string{"1.0.0", "1.1.0"} {
		cmd := exec.CommandContext(t.Context(), "../../tools/package", testenv.Program(t), dir)
		cmd.Env = append(os.Environ(), "VERSION="+version)
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	rootfs := testenv.BaseRootfs(t)
	for kind, tool := range map[string]string{"deb": "dpkg", "rpm": "rpm"} {
		t.Run(kind, func(t *testing.T) {
			if _, err := exec.LookPath(tool); err != nil {
				testenv.Unsupported(t, "no %s; install it", tool)
			}
			script, err := filepath.Abs(filepath.Join("testdata", kind+".sh"))
			if err != nil {
				t.Fatal(err)
			}
			// Mounts and processes of the script end with it.
			cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-eux", script, rootfs, dir, t.TempDir())
			if text, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, text)
			}
		})
	}
}
