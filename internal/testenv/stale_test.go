package testenv

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestSweep leaves processes, mounts, loop devices and a control group of a
// process that has ended, sees them found, and nothing of them after the sweep.
func TestSweep(t *testing.T) {
	NeedsRoot(t)
	CheckHost(t)
	gone := exec.CommandContext(t.Context(), "true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	mark := markPrefix + strconv.Itoa(gone.Process.Pid) + "-"
	dir := filepath.Join(filepath.Dir(DataDir(t)), mark+"sweep")
	data := filepath.Join(dir, "data")
	if err := os.MkdirAll(data, 0o700); err != nil {
		t.Fatal(err)
	}
	run(t, "mount", "-t", "tmpfs", "tmpfs", data)
	image := filepath.Join(dir, "image")
	if err := os.WriteFile(image, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "losetup", "--find", image)
	tree := "/sys/fs/cgroup"
	if _, err := os.Stat(tree + "/cgroup.procs"); err != nil {
		tree += "/pids"
	}
	group := filepath.Join(tree, "sandkasten", NodeName(data), "id")
	if err := os.MkdirAll(group, 0o700); err != nil {
		t.Fatal(err)
	}
	sleeper := exec.CommandContext(t.Context(), "sleep", "1000")
	sleeper.Dir = data
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- sleeper.Wait() }()
	sandboxEnded := leaveSandbox(t, mark)

	stale, err := Stale()
	if err != nil || !slices.Contains(stale, mark) {
		t.Errorf("stale are %v, %v; want %s", stale, err, mark)
	}
	if slices.ContainsFunc(stale, func(m string) bool { return m == Mark() }) {
		t.Error("this process counts as ended")
	}
	if err := Sweep([]string{mark}); err != nil {
		t.Error(err)
	}
	for _, ended := range []<-chan error{ended, sandboxEnded} {
		if err := <-ended; err == nil {
			t.Error("a process was not killed")
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil || strings.Contains(string(mounts), mark) {
		t.Errorf("a mount is left: %v", err)
	}
	for _, path := range []string{dir, group, filepath.Dir(group)} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
	if stale, err = Stale(); err != nil || slices.Contains(stale, mark) {
		t.Errorf("after the sweep stale are %v, %v", stale, err)
	}
}

// leaveSandbox leaves a process that a mark is on only by a loop device on a file
// that has gone, which it has mounted where nobody else sees it. The channel gets
// how it ended.
func leaveSandbox(t *testing.T, mark string) <-chan error {
	t.Helper()
	dir := filepath.Join(filepath.Dir(DataDir(t)), mark+"sandbox")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	image := filepath.Join(dir, "image")
	run(t, "truncate", "--size=8M", image)
	run(t, "mkfs.ext4", "-q", image)
	sandbox := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-ec", `mount -o loop "$0" /mnt; cd /; echo mounted; exec sleep 1000`, image)
	out, err := sandbox.StdoutPipe()
	if err == nil {
		err = sandbox.Start()
	}
	if err == nil {
		_, err = out.Read(make([]byte, 1))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- sandbox.Wait() }()
	return ended
}

func TestOwn(t *testing.T) {
	for text, want := range map[string]bool{
		"/var/tmp/" + Mark() + "1":                true,
		"/var/tmp/" + markPrefix + "1-2":          false,
		"/var/tmp/" + markPrefix + "cache/x":      false,
		"31 24 0:27 / /sys/fs/cgroup rw - cgroup": false,
	} {
		if got := Own(text); got != want {
			t.Errorf("Own(%q) = %v", text, got)
		}
	}
}
