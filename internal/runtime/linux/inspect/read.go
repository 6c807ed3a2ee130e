package inspect

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// FileOf identifies what is at path, which may be a link. What is not there is
// the zero File.
func FileOf(path string) (File, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return File{}, nil
	}
	if err != nil {
		return File{}, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return File{}, fmt.Errorf("%s has no inode", path)
	}
	return File{Device: st.Dev, Inode: st.Ino}, nil
}

// Names lists a directory. One that is not there is empty.
func Names(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

// Processes describes those of pids that are there, by a /proc.
func Processes(proc string, pids []int) ([]Process, error) {
	var all []Process
	for _, pid := range pids {
		stat, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "stat"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended meanwhile
		}
		if err != nil {
			return nil, err
		}
		p, err := parseStat(pid, stat)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// parseStat reads a line of proc_pid_stat(5). The name in parentheses may hold
// anything.
func parseStat(pid int, line []byte) (Process, error) {
	fields := strings.Fields(string(line[bytes.LastIndexByte(line, ')')+1:]))
	const state, parent, start = 0, 1, 19 // fields 3, 4 and 22
	if len(fields) <= start {
		return Process{}, fmt.Errorf("the state of process %d is malformed", pid)
	}
	parentPID, err := strconv.Atoi(fields[parent])
	return Process{PID: pid, Start: fields[start], Parent: parentPID, Halted: State(fields[state][0]).Halted()}, err
}

// MountsBelow returns the mount points in a mountinfo that have something of a
// data directory's: below its directories of sandboxes, workspaces and
// unfinished work, or on one of the loop devices.
func MountsBelow(mountinfo, dataDir string, loops []Loop) []string {
	devices := make(map[string]bool, len(loops))
	for _, l := range loops {
		devices["/dev/loop"+strconv.Itoa(l.Number)] = true
	}
	var found []string
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if len(left) < 5 || len(right) < 2 {
			continue
		}
		point := left[4]
		below := devices[right[1]]
		for _, dir := range []string{"sandboxes", "workspaces", "scratch"} {
			below = below || strings.HasPrefix(point, filepath.Join(dataDir, dir)+"/")
		}
		if below {
			found = append(found, point)
		}
	}
	return found
}

// ActingAs finds the one of pids that acts as the user of that id.
func ActingAs(proc string, pids []int, id int) (p Process, found bool, err error) {
	all, err := Processes(proc, pids)
	for _, p := range all {
		if uid(proc, p.PID) == id {
			return p, true, err
		}
	}
	return p, false, err
}

// uid is the id that a process acts as, or -1 if it cannot be told.
func uid(proc string, pid int) int {
	text, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "status"))
	if err != nil {
		return -1
	}
	_, after, _ := strings.Cut(string(text), "\nUid:")
	fields := strings.Fields(after)
	if len(fields) < 2 {
		return -1
	}
	id, err := strconv.Atoi(fields[1]) // the effective one
	if err != nil {
		return -1
	}
	return id
}

// Act reports whether one of pids acts as a user whom of selects.
func Act(proc string, pids []int, of func(id int) bool) bool {
	for _, pid := range pids {
		if of(uid(proc, pid)) {
			return true
		}
	}
	return false
}

// Foreign are those of pids that act as users outside of a sandbox's block, which
// begins with the id first. Nothing in a sandbox can.
func Foreign(proc string, pids []int, first, size int) []int {
	var found []int
	for _, pid := range pids {
		if id := uid(proc, pid); id >= 0 && (id < first || id >= first+size) {
			found = append(found, pid)
		}
	}
	return found
}

// IsReadOnly reports whether the file system that a process has at point takes no
// writes any more. Since Linux 6.15 an error leaves it writable in name.
func IsReadOnly(proc string, pid int, point string) bool {
	table, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "mountinfo"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(table)) {
		before, after, _ := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if len(left) < 5 || len(right) < 3 || left[4] != point {
			continue
		}
		for option := range strings.SplitSeq(right[2], ",") {
			if option == "ro" || option == "emergency_ro" || option == "shutdown" {
				return true
			}
		}
	}
	return false
}
