package testenv

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// leakGrace is how long what is removed in the background may take.
const leakGrace = 10 * time.Second

// CheckHost fails the test if it leaves behind, once all its later clean-ups
// have run: a mount or loop device, a control group of ours, a child process,
// or an open descriptor. It is called first, and not from parallel tests.
func CheckHost(t testing.TB) {
	t.Helper()
	before, err := hostState()
	if err != nil {
		t.Fatalf("read the host's state: %v", err)
	}
	t.Cleanup(func() {
		if err := before.waitFor(); err != nil {
			t.Error(err)
		}
	})
}

// state is a set of descriptions of what a test could leave behind.
type state map[string]struct{}

// waitFor returns an error that lists what is there and was not in s, after
// giving it time to go.
func (s state) waitFor() error {
	deadline := time.Now().Add(leakGrace)
	for {
		left, err := s.left()
		if err != nil {
			return fmt.Errorf("read the host's state: %w", err)
		}
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("left behind:\n\t%s", strings.Join(left, "\n\t"))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// left returns what is there now and was not in s, sorted.
func (s state) left() ([]string, error) {
	now, err := hostState()
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(now, func(what string, _ struct{}) bool { _, old := s[what]; return old })
	return slices.Sorted(maps.Keys(now)), nil
}

func hostState() (state, error) {
	s := state{}
	for _, add := range []func(state) error{addMounts, addLoops, addCgroups, addChildren, addDescriptors} {
		if err := add(s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// addMounts takes mounts that name a data directory or a loop device: other
// programs mount things too.
func addMounts(s state) error {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, dataDirPrefix) || strings.Contains(line, " /dev/loop") {
			s["mount "+strings.TrimSpace(line)] = struct{}{}
		}
	}
	return nil
}

func addLoops(s state) error {
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return err
	}
	for _, file := range files {
		backing, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
			continue // it went away since the glob
		}
		if err != nil {
			return err
		}
		if strings.Contains(string(backing), dataDirPrefix) {
			s["loop device "+strings.Split(file, "/")[3]+" on "+strings.TrimSpace(string(backing))] = struct{}{}
		}
	}
	return nil
}

// addCgroups takes the groups of sandboxes, sandkasten*/NODE/ID and below, in
// every hierarchy. The two directories above them are the daemon's.
func addCgroups(s state) error {
	for _, pattern := range []string{"/sys/fs/cgroup/sandkasten*/*", "/sys/fs/cgroup/*/sandkasten*/*"} {
		roots, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, root := range roots {
			err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
				if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
					return nil
				}
				if err == nil && d.IsDir() && path != root {
					s["cgroup "+path] = struct{}{}
				}
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// addChildren takes this process's children, zombies too: whoever starts a
// process waits for it.
func addChildren(s state) error {
	files, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		return err
	}
	for _, file := range files {
		pids, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended; its children moved to another one
		}
		for pid := range strings.FieldsSeq(string(pids)) {
			name, err := os.ReadFile("/proc/" + pid + "/comm")
			if err == nil {
				s["child process "+pid+" ("+strings.TrimSpace(string(name))+")"] = struct{}{}
			}
		}
	}
	return nil
}

// addDescriptors takes this process's descriptors, except those that the
// runtime opens once for itself.
func addDescriptors(s state) error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil || target == "anon_inode:[eventpoll]" || target == "anon_inode:[eventfd]" {
			continue // gone since it was listed, or the network poller's
		}
		if strings.HasPrefix(target, "/proc/") && strings.HasSuffix(target, "/fd") {
			continue // the directory being read
		}
		s["descriptor "+e.Name()+" of "+target] = struct{}{}
	}
	return nil
}
