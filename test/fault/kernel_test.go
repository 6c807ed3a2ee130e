package fault

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	sandkasten "github.com/sandkasten/sandkasten/sdk/go"
)

// groupDirs are the directories of a session's control group.
func (h *host) groupDirs(s *sandkasten.Session) []string {
	h.t.Helper()
	name := "sandkasten/" + h.node() + "/" + h.box(s.ID).Group
	found, err := filepath.Glob("/sys/fs/cgroup/*/" + name)
	if _, statErr := os.Stat("/sys/fs/cgroup/" + name); statErr == nil {
		found = append(found, "/sys/fs/cgroup/"+name)
	}
	if err != nil || len(found) == 0 {
		h.t.Fatalf("session %s has no control group: %v", s.ID, err)
	}
	return found
}

// limits is the directory in which a limit is set, which on a host with cgroup
// v1 is not the one by which all can be killed.
func (h *host) limits(s *sandkasten.Session) (dir string, v1 bool) {
	h.t.Helper()
	for _, dir := range h.groupDirs(s) {
		if _, err := os.Stat(filepath.Join(dir, "memory.limit_in_bytes")); err == nil {
			return dir, true
		}
	}
	return h.groupDirs(s)[0], false
}

// A control group that something keeps from being removed keeps its session in
// stopping and nobody else; when it can be removed the session ends by itself.
func TestF15_BusyControlGroup(t *testing.T) {
	t.Parallel()
	h := start(t, "")
	s := h.create(nil)
	dir, v1 := h.limits(s)
	nested := filepath.Join(dir, "nested")
	// What is killed with the group keeps nothing busy, so on v2 it is a group
	// below one of those that are removed.
	if !v1 {
		h.write(filepath.Join(dir, "cgroup.max.depth"), "5")
		if err := os.Mkdir(nested, 0o700); err != nil {
			t.Fatal(err)
		}
		nested = filepath.Join(nested, "nested")
	}
	if err := os.Mkdir(nested, 0o700); err != nil {
		t.Fatal(err)
	}
	if v1 {
		h.write(filepath.Join(nested, "cgroup.procs"), strconv.Itoa(h.sleeper("sleep", "1000")))
	}
	err := s.Destroy(t.Context())
	if code(err) != "unavailable" {
		t.Errorf("destroy: %v; want unavailable", err)
	}
	if info, err := s.Refresh(t.Context()); err != nil || info.Status != "stopping" {
		t.Errorf("it is %s, want stopping: %v", info.Status, err)
	}
	h.sh(h.create(nil), "true") // others go on
	h.Restart()
	if v1 {
		h.emptyGroup(nested)
	}
	h.eventually(settle, func() error { return os.Remove(nested) })
	h.wantStatus(s, "destroyed", settle)
	h.oracle()
	h.wantNothing()
}

// emptyGroup moves the processes of a group to the root of its hierarchy.
func (h *host) emptyGroup(dir string) {
	h.t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		h.t.Fatal(err)
	}
	root, _, _ := strings.Cut(dir, "/sandkasten/")
	for pid := range strings.FieldsSeq(string(text)) {
		h.write(filepath.Join(root, "cgroup.procs"), pid)
	}
}

func (h *host) write(path, text string) {
	h.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// A group that somebody has frozen can be destroyed, and a daemon that starts
// lets go on what runs.
func TestF15_FrozenControlGroup(t *testing.T) {
	t.Parallel()
	h := start(t, "")
	doomed, s := h.create(nil), h.create(nil)
	for _, one := range []*sandkasten.Session{doomed, s} {
		h.sh(one, "sleep 1000 &")
		for _, dir := range h.groupDirs(one) {
			if _, err := os.Stat(filepath.Join(dir, "cgroup.freeze")); err == nil {
				h.write(filepath.Join(dir, "cgroup.freeze"), "1")
			}
		}
	}
	h.destroy(doomed)
	h.Restart()
	h.sh(s, "true")
	h.oracle()
	h.wantNothing()
}

// A control group that is gone does not keep its session from being destroyed,
// nor a directory of ours that is gone the next from being made.
func TestF15_ControlGroupGone(t *testing.T) {
	t.Parallel()
	h := start(t, "")
	s := h.create(nil)
	for _, dir := range h.groupDirs(s) {
		h.eventually(settle, func() error {
			below, err := filepath.Glob(dir + "/*/cgroup.procs")
			for _, file := range append(below, filepath.Join(dir, "cgroup.procs")) {
				h.emptyGroup(filepath.Dir(file))
			}
			for _, file := range below {
				err = errors.Join(err, os.Remove(filepath.Dir(file)))
			}
			return errors.Join(err, os.Remove(dir))
		})
	}
	h.destroy(s)
	h.sh(h.create(nil), "true")
	h.oracle()
	h.wantNothing()
}

// A disk that a process in another mount namespace holds is not used again
// before that lets go: a stop waits, a destroy leaves it to the kernel.
func TestF16_PinnedMounts(t *testing.T) {
	t.Parallel()
	h := start(t, "")
	s, doomed := h.create(nil), h.create(nil)
	h.sh(s, "echo kept > f")
	pin := func(s *sandkasten.Session) int {
		pid := h.sleeper("nsenter", "--mount=/proc/"+strconv.Itoa(h.runner(s))+"/ns/mnt", "--", "/bin/sleep", "1000")
		h.eventually(settle, func() error {
			name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
			if err == nil && strings.TrimSpace(string(name)) != "sleep" {
				err = fmt.Errorf("process %d is %s", pid, name)
			}
			return err
		})
		return pid
	}
	first, second := pin(s), pin(doomed)
	if err := doomed.Destroy(t.Context()); err != nil {
		t.Errorf("destroy: %v", err)
	}
	if _, err := s.Stop(t.Context()); code(err) != "unavailable" {
		t.Errorf("stop: %v; want unavailable", err)
	}
	if _, err := s.Start(t.Context()); err == nil {
		t.Error("a session could be started whose disk is still in use")
	}
	h.sh(h.create(nil), "true")
	h.end(first)
	h.end(second)
	h.wantStatus(s, "stopped", settle)
	if _, err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := h.sh(s, "cat f"); got != "kept" {
		t.Errorf("its file is %q", got)
	}
	h.oracle()
	h.wantNothing()
}

// end ends a sleeper before the test does.
func (h *host) end(pid int) {
	h.t.Helper()
	h.kill(pid, syscall.SIGKILL)
	h.eventually(settle, func() error {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(text), ") Z ") {
			return nil
		}
		return fmt.Errorf("process %d goes on", pid)
	})
}
