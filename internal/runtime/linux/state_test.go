package linux

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/inspect"
	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// The leak check knows the groups of tests that run beside others by this name.
func TestTestsKnowTheNameOfANode(t *testing.T) {
	if got, want := testenv.NodeName("/var/tmp/data/"), nodeOfPath("/var/tmp/data/"); got != want {
		t.Errorf("testenv says %s, the driver %s", got, want)
	}
}

func TestProcessIsKnownByMoreThanItsNumber(t *testing.T) {
	boot, err := readBootID()
	if err != nil {
		t.Fatal(err)
	}
	start, state, err := inspect.Stat(os.Getpid())
	if err != nil || !state.Running() {
		t.Fatalf("own process: %v %v", state, err)
	}
	p := process{BootID: boot, PID: os.Getpid(), StartTime: start}
	if !p.alive(boot) {
		t.Error("this process counts as dead")
	}
	if p.alive("another boot") {
		t.Error("alive after a reboot")
	}
	if p.StartTime = "1"; p.alive(boot) {
		t.Error("another process under the same number counts as this one")
	}
}

func TestZombieIsDead(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}()
	boot, err := readBootID()
	if err != nil {
		t.Fatal(err)
	}
	p := process{BootID: boot, PID: cmd.Process.Pid}
	if p.StartTime, _, err = inspect.Stat(p.PID); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); p.alive(boot); {
		if time.Now().After(deadline) {
			t.Fatal("a zombie counts as running")
		}
	}
	// It is still to be waited for: its threads may end after it.
	pidfd, err := p.pidfd(boot)
	if err != nil {
		t.Fatal(err)
	}
	defer sys.Close(pidfd)
	if pidfd < 0 {
		t.Error("a zombie cannot be waited for")
	}
}

func TestReadJSONNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	if err := os.WriteFile(path, []byte("{half"), 0o600); err != nil {
		t.Fatal(err)
	}
	var s state
	if err := readJSON(path, &s); err == nil || !strings.Contains(err.Error(), path) {
		t.Fatalf("got %v", err)
	}
	if err := writeJSON(path, state{Group: "a"}); err != nil {
		t.Fatal(err)
	}
	if err := readJSON(path, &s); err != nil || s.Group != "a" {
		t.Fatalf("%+v, %v", s, err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Fatalf("left behind: %v, %v", entries, err)
	}
}

// The directory's name is the id; the control group's name stays what it was.
func TestStateIsNamedByItsDirectory(t *testing.T) {
	d := &Driver{sandboxes: t.TempDir()}
	for id, group := range map[runtime.ID]string{"claimed": "ready", "plain": "plain", "old": ""} {
		if err := errors.Join(d.claim(id), d.writeState(state{ID: id, Group: group})); err != nil {
			t.Fatal(err)
		}
		want := group
		if group == "" { // of a daemon that knew no other names
			want = string(id)
		}
		if s, err := d.readState(id); err != nil || s.ID != id || s.groupName() != want {
			t.Errorf("%s: %+v, %v", id, s, err)
		}
	}
	for id, want := range map[runtime.ID]bool{"ready": true, "claimed": false, "plain": false, "other": false} {
		if d.claimed(id) != want {
			t.Errorf("claimed(%s) is not %v", id, want)
		}
	}
	used, err := d.groupsInUse()
	if want := map[string]bool{"ready": true, "plain": true, "old": true}; err != nil || !maps.Equal(used, want) {
		t.Errorf("groups %v, %v", used, err)
	}
}

func TestCheckKernel(t *testing.T) {
	for release, ok := range map[string]bool{
		"5.19.0-1-amd64": true, "6.1.0": true, "7.0-rc1": true, "10.2.3": true,
		"5.18.19": false, "4.19.0": false, "five": false, "6": false,
	} {
		if err := checkKernel(release); (err == nil) != ok {
			t.Errorf("%s: %v", release, err)
		}
	}
}

func TestCheckSaysHowToMend(t *testing.T) {
	zero := filepath.Join(t.TempDir(), "max_user_namespaces")
	if err := os.WriteFile(zero, []byte("0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, err := range map[string]error{
		"as root":              checkRoot(1000),
		"sysctl -w":            checkSysctl(zero),
		"apt-get install e2fs": checkTool("no-such-tool-anywhere", "e2fsprogs"),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if err := checkRoot(0); err != nil {
		t.Error(err)
	}
}
