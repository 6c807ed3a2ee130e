package testenv

import (
	"crypto/sha256"
	"encoding/hex"
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

	"github.com/sandkasten/sandkasten/internal/installation"
)

// leakGrace is how long what is removed in the background may take.
const leakGrace = 10 * time.Second

// CheckHost fails the test if it leaves behind, once all its later clean-ups
// have run: a mount or loop device, a control group of ours, a child process,
// or an open descriptor. It is called first, and not from parallel tests. What
// test binaries that run at the same time make is not counted.
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
		if (strings.Contains(line, markPrefix) || strings.Contains(line, " /dev/loop")) && !Foreign(line+backingOf(line)) {
			s["mount "+strings.TrimSpace(line)] = struct{}{}
		}
	}
	return nil
}

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
		if strings.Contains(string(backing), markPrefix) && !Foreign(string(backing)) {
			s["loop device "+strings.Split(file, "/")[3]+" on "+strings.TrimSpace(string(backing))] = struct{}{}
		}
	}
	return nil
}

// addCgroups takes the groups of sandboxes, sandkasten*/NODE/ID and below, in
// every hierarchy. The two directories above them are the daemon's.
func addCgroups(s state) error {
	foreign := ForeignGroups()
	for _, pattern := range []string{"/sys/fs/cgroup/sandkasten*/*", "/sys/fs/cgroup/*/sandkasten*/*"} {
		roots, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, root := range roots {
			if foreign(root) {
				continue
			}
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

// NodeName is the name of a data directory's control groups: its installation's,
// or that of a driver which was told of none.
func NodeName(dataDir string) string {
	if id, err := installation.Read(filepath.Join(dataDir, "node")); err == nil {
		return string(id)
	}
	sum := sha256.Sum256([]byte(filepath.Clean(dataDir)))
	return hex.EncodeToString(sum[:4])
}

// ForeignGroups reports of control groups, by their paths, whether they belong
// to tests of another process, as far as those run now. The leases of user ids
// count as such: another daemon may take over those of a dead one.
func ForeignGroups() func(path string) bool {
	nodes := foreignNodes()
	nodes["_ids"] = true
	return func(path string) bool {
		return Foreign(path) || slices.ContainsFunc(strings.Split(path, "/"), func(name string) bool { return nodes[name] })
	}
}

// foreignNodes are the nodes of all directories that tests of other processes
// may have as a data_dir: theirs, and two levels below.
func foreignNodes() map[string]bool {
	nodes := map[string]bool{}
	for _, base := range dataDirBases() {
		for _, below := range []string{"", "/*", "/*/*"} {
			dirs, err := filepath.Glob(filepath.Join(base, markPrefix+"*") + below)
			if err != nil {
				panic(err) // a pattern of ours
			}
			for _, dir := range dirs {
				if Foreign(dir) {
					nodes[NodeName(dir)] = true
				}
			}
		}
	}
	return nodes
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
