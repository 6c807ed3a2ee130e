package e2e

import (
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

// previousCommit is what the previous build is made of: the last commit with the
// protocol and the schema that releases before this one have.
const previousCommit = "0e7faa52e503570c0389a316f6d61043e9eb7516"

// savingCommit is the last one whose orchestrator does not know sessions with files that
// are not saved yet. previousCommit has no orchestrator.
const savingCommit = "152e4345ab01ca00b5adfd5d3f05f6736fe452f7"

// programOf builds the program as it was, of the repository's own history.
func programOf(t *testing.T, commit string) string {
	t.Helper()
	root, err := testenv.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "source.tar")
	if out, err := exec.CommandContext(t.Context(), "git", "-C", root, "archive", "-o", source, commit).CombinedOutput(); err != nil {
		testenv.Unsupported(t, "the history of this repository does not reach back to commit %s; clone it whole: %v: %s", commit, err, out)
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
	older := programOf(t, previousCommit)
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
	box := orchestrated{t, d, "6f1c1c9e-4b43-4d25-9f0e-2f6f4a0c0e01"}

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
		if d.Program = program; program == newer {
			d.SetEnv("SANDKASTEN_ORCHESTRATOR__ENABLED=true")
		} else {
			d.SetEnv()
		}
		d.Start()
		if program == newer {
			// Sessions of the orchestrator outlive a version that knows none.
			if i > 0 {
				box.wantFile(what, "upgrade")
			}
			box.upload(what)
		}
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

// Sessions of the orchestrator go from a build that had one to this one and back with
// their files: one that is ready, one that was stopped, and one that this build could not
// save when it was stopped, which the other does not know.
func TestOrchestratedUpgradeAndBack(t *testing.T) {
	testenv.NeedsRoot(t)
	t.Parallel()
	older := programOf(t, savingCommit)
	d := blackbox.New(t, blackbox.Options{Config: "orchestrator: {enabled: true, reaper_interval_seconds: 1}\n"})
	newer := d.Program
	ready := orchestrated{t, d, "6f1c1c9e-4b43-4d25-9f0e-2f6f4a0c0e11"}
	stopped := orchestrated{t, d, "6f1c1c9e-4b43-4d25-9f0e-2f6f4a0c0e12"}
	unsaved := orchestrated{t, d, "6f1c1c9e-4b43-4d25-9f0e-2f6f4a0c0e13"}
	d.Program = older
	d.Start()
	before, uncover := "before", func() {}
	for _, x := range []orchestrated{ready, stopped, unsaved} {
		x.upload(before)
	}
	stopped.must(http.MethodPost, "stop/", "", http.StatusNoContent)

	for i, program := range []string{newer, older, newer} {
		what := []string{"upgrade", "back", "upgrade again"}[i]
		d.Kill()
		uncover() // after the daemon that would save what is unsaved
		d.Program = program
		d.Start()
		for _, x := range []orchestrated{ready, stopped, unsaved} {
			x.wantFile(what, before)
			x.upload(what)
		}
		before = what
		stopped.must(http.MethodPost, "stop/", "", http.StatusNoContent)
		if program == newer {
			uncover = readOnly(t, filepath.Join(d.Data, "snapshots"))
			unsaved.must(http.MethodDelete, "", "", http.StatusNoContent)
			if row := unsaved.must(http.MethodGet, "", "", http.StatusOK); !strings.Contains(row, `"unsaved":true`) {
				t.Errorf("%s: the session that could not be saved is %s", what, row)
			}
		}
	}
	uncover()
	for _, x := range []orchestrated{ready, stopped, unsaved} {
		x.wantFile("after the last stop", before)
	}
	for _, x := range []orchestrated{ready, stopped, unsaved} {
		x.must(http.MethodDelete, "?force=true", "", http.StatusNoContent)
	}
	if got := d.Output("fsck"); got != "Nothing differs." {
		t.Error(got)
	}
}

// readOnly has a directory take nothing, until it is undone.
func readOnly(t *testing.T, dir string) (undo func()) {
	t.Helper()
	if err := errors.Join(unix.Mount(dir, dir, "", unix.MS_BIND, ""), unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")); err != nil {
		t.Fatal(err)
	}
	undo = sync.OnceFunc(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(undo)
	return undo
}

// orchestrated is a session of the orchestrator's API.
type orchestrated struct {
	t  *testing.T
	d  *blackbox.Daemon
	id string
}

// upload has the session, which begins for that, have a file.
func (x orchestrated) upload(content string) {
	x.t.Helper()
	if status, answer := x.ask(http.MethodPost, "/api/sandbox/sessions/", `{"id":"`+x.id+`"}`); status/100 != 2 {
		x.t.Fatalf("create: %d %s", status, answer)
	}
	x.must(http.MethodPost, "upload/", `{"path":"f","content":"`+content+`"}`, http.StatusOK)
}

func (x orchestrated) wantFile(when, want string) {
	x.t.Helper()
	if got := x.must(http.MethodGet, "files/content/?path=f", "", http.StatusOK); got != want {
		x.t.Errorf("%s: the session %s has %q, want %q", when, x.id, got, want)
	}
}

// must asks below the session.
func (x orchestrated) must(method, path, body string, want int) (answer string) {
	x.t.Helper()
	status, answer := x.ask(method, "/api/sandbox/sessions/"+x.id+"/"+path, body)
	if status != want {
		x.t.Fatalf("%s %s: %d %s\n%s", method, path, status, answer, x.d.Log())
	}
	return answer
}

func (x orchestrated) ask(method, path, body string) (status int, answer string) {
	x.t.Helper()
	req, err := http.NewRequestWithContext(x.t.Context(), method, x.d.URL+path, strings.NewReader(body))
	if err != nil {
		x.t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", x.d.Key)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		x.t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		x.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}
