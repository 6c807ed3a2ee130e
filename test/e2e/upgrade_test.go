package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

// previousCommit is what the previous build is made of: the last commit with the
// protocol and the schema that releases before this one have.
const previousCommit = "0e7faa52e503570c0389a316f6d61043e9eb7516"

// previous builds the program as it was, of the repository's own history.
func previous(t *testing.T) string {
	t.Helper()
	root, err := testenv.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "source.tar")
	if out, err := exec.CommandContext(t.Context(), "git", "-C", root, "archive", "-o", source, previousCommit).CombinedOutput(); err != nil {
		testenv.Unsupported(t, "the history of this repository does not reach back to commit %s; clone it whole: %v: %s", previousCommit, err, out)
	}
	program := filepath.Join(dir, "sandkasten")
	for _, args := range [][]string{
		{"tar", "-xf", source, "-C", dir},
		{"go", "build", "-trimpath", "-ldflags=-s -w", "-o", "internal/runnerbin/bin/runner", "./cmd/runner"},
		{"go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "./cmd/sandkasten"},
	} {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build the previous version: %v\n%s", err, out)
		}
	}
	return program
}

// Sessions, stopped ones, workspaces and snapshots go from the previous build to
// this one and back, and nothing ends on the way: shells keep their variables
// and a command that runs is there at its end.
func TestUpgradeAndBack(t *testing.T) {
	testenv.NeedsRoot(t)
	t.Parallel()
	older := previous(t)
	d := blackbox.New(t, blackbox.Options{})
	newer := d.Program

	d.Program = older
	d.Start()
	live := d.Output("create", "base")
	d.Output("exec", live, "x=1; cd /tmp; (sleep 3000; true) & echo $! > /tmp/job")
	stopped := d.Output("create", "base")
	d.Output("exec", stopped, "echo kept > kept")
	d.Output("stop", stopped)
	d.Output("workspace", "create", "project")
	user := d.Output("create", "base", "--workspace", "project")
	d.Output("exec", user, "echo shared > shared")
	snapshot := d.Output("snapshot", "create", user)

	for i, program := range []string{newer, older, newer} {
		what := []string{"upgrade", "back", "upgrade again"}[i]
		running := d.Command("exec", live, "sleep 5; y=ran"+what[:1])
		if err := running.Start(); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(time.Minute); !strings.Contains(d.Output("ps", live), "sleep 5"); {
			if time.Now().After(deadline) {
				t.Fatalf("%s: the command does not run", what)
			}
		}
		d.Kill()
		d.Program = program
		d.Start()
		// Its client may have given up; the command has not.
		t.Logf("%s: the client of the daemon that died ended with %v", what, running.Wait())
		want := "1 /tmp ran" + what[:1] + " lives"
		if got := d.Output("exec", live, "echo $x $PWD $y $(kill -0 $(cat /tmp/job) && echo lives)"); got != want {
			t.Errorf("%s: the session has %q, want %q", what, got, want)
		}
		d.Output("start", stopped)
		if got := d.Output("exec", stopped, "cat kept"); got != "kept" {
			t.Errorf("%s: the stopped session has %q", what, got)
		}
		d.Output("stop", stopped)
		if got := d.Output("exec", user, "cat shared"); got != "shared" {
			t.Errorf("%s: the workspace has %q", what, got)
		}
		restored := d.Output("create", "base", "--restore", snapshot)
		if got := d.Output("exec", restored, "cat shared"); got != "shared" {
			t.Errorf("%s: the snapshot has %q", what, got)
		}
		d.Output("rm", restored)
		if program == newer {
			if got := d.Output("fsck"); got != "Nothing differs." {
				t.Errorf("%s: %s", what, got)
			}
		}
	}
}
