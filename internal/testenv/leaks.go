package testenv

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// leakGrace is how long what is removed in the background may take.
const leakGrace = time.Minute

// CheckHost fails the test if it leaves behind, once all its later clean-ups
// have run: a mount or loop device, a control group, a child process, or an
// open descriptor. It is called first, and not from parallel tests.
//
// Daemons and other tests of the host may make such things at the same time.
// Counted are only those with this process's Mark in a path, the groups of
// data directories with the mark, and what /proc lists of this process.
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

// addMounts takes mounts in this process's directories and of its images.
func addMounts(s state) error {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if OwnMount(line) {
			s["mount "+strings.TrimSpace(line)] = struct{}{}
		}
	}
	return nil
}

// OwnMount reports whether a line of mountinfo is a mount in one of this
// process's directories or of an image in one.
func OwnMount(line string) bool { return Own(line + backingOf(line)) }

// loopMount finds the device of a loop mount in a line of mountinfo.
var loopMount = regexp.MustCompile(` /dev/(loop\d+)\b`)

// backingOf is the file behind a loop mount, or "" for another mount.
func backingOf(line string) string {
	m := loopMount.FindStringSubmatch(line)
	if m == nil {
		return ""
	}
	file, err := os.ReadFile("/sys/block/" + m[1] + "/loop/backing_file")
	if err != nil {
		return "" // detached meanwhile
	}
	return string(file)
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
		if Own(string(backing)) {
			s["loop device "+strings.Split(file, "/")[3]+" on "+strings.TrimSpace(string(backing))] = struct{}{}
		}
	}
	return nil
}

// addChildren takes this process's children, zombies too: whoever starts a
// process waits for it.
func addChildren(s state) error {
	pids, err := Children(os.Getpid())
	if err != nil {
		return err
	}
	for _, pid := range pids {
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if err == nil {
			s[fmt.Sprintf("child process %d (%s)", pid, strings.TrimSpace(string(name)))] = struct{}{}
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
