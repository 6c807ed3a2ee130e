package testenv

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Stale lists the marks of test processes that have ended and have left
// something behind: a directory, a mount, a loop device or a control group. A
// run that is killed leaves such things, and so does a test with a leak. A
// process number that is in use again hides what its former owner left.
func Stale() ([]string, error) {
	texts, err := markedTexts()
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, text := range texts {
		for _, m := range markOf.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat("/proc/" + m[1]); errors.Is(err, fs.ErrNotExist) {
				found[m[0]] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// markedTexts are the paths and lines that may have a mark in them.
func markedTexts() ([]string, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	texts := strings.Split(string(mounts), "\n")
	for _, base := range dataDirBases() {
		texts = append(texts, globAll(filepath.Join(base, markPrefix+"*"))...)
	}
	texts = append(texts, markedGroups(markPrefix)...)
	for _, file := range globAll("/sys/block/loop*/loop/backing_file") {
		if backing, err := os.ReadFile(file); err == nil { // or it has just been detached
			texts = append(texts, string(backing))
		}
	}
	return texts, nil
}

// Sweep ends and removes everything on this host that has one of these marks,
// which Stale found. What could not be removed is in the error.
func Sweep(marks []string) error {
	var errs []error
	for _, mark := range marks {
		errs = append(errs, sweep(mark))
	}
	return errors.Join(errs...)
}

func sweep(mark string) error {
	var dirs []string
	for _, base := range dataDirBases() {
		dirs = append(dirs, globAll(filepath.Join(base, mark+"*"))...)
	}
	groups := markedGroups(mark)
	for _, dir := range dirs {
		for _, node := range nodesIn(dir) {
			groups = append(groups, groupTree("sandkasten/"+node)...)
			groups = append(groups, groupTree("sandkasten/_ids/*/"+node)...) // its leases
		}
	}
	errs := []error{killMarked(mark, groups), unmountMarked(mark), detachMarked(mark)}
	slices.SortFunc(groups, func(a, b string) int { return len(b) - len(a) }) // what is below first
	for _, dir := range groups {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	for _, dir := range dirs {
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}

// markedGroups are the control groups with names that begin with a mark, and
// all below them.
func markedGroups(mark string) []string { return groupTree(mark + "*") }

// sweepTime is how long killed processes may take to end.
const sweepTime = 10 * time.Second

// killMarked ends the processes in the groups, and those that hold files of a
// marked directory or name one on their command lines. The test process that
// started these has ended: they, or their parents, are orphans.
func killMarked(mark string, groups []string) error {
	for end := time.Now().Add(sweepTime); ; time.Sleep(20 * time.Millisecond) {
		pids := map[int]bool{}
		for _, pid := range processesIn(groups) {
			pids[pid] = true
		}
		offspring, err := Offspring(func(pid int) bool { return holdsMarked(pid, mark) })
		if err != nil {
			return err
		}
		for _, pid := range offspring {
			if holdsMarked(pid, mark) {
				pids[pid] = true
			}
		}
		if len(pids) == 0 {
			return nil
		}
		for pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("kill process %d of %s: %w", pid, mark, err)
			}
		}
		if time.Now().After(end) {
			return fmt.Errorf("processes %v of %s do not end", slices.Sorted(maps.Keys(pids)), mark)
		}
	}
}

// processesIn are the processes in control groups.
func processesIn(groups []string) []int {
	var pids []int
	for _, dir := range groups {
		list, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			continue // it has just gone
		}
		for word := range strings.FieldsSeq(string(list)) {
			if pid, err := strconv.Atoi(word); err == nil && pid > 1 { // 0 is of another namespace
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// holdsMarked reports whether a process works in, runs, has open, names or has
// mounted a path with the mark. A sandbox whose data directory has gone has no
// more than mounts of its files, in a namespace of its own.
func holdsMarked(pid int, mark string) bool {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	for _, link := range append(globAll(dir+"/fd/*"), dir+"/cwd", dir+"/exe", dir+"/root") {
		if target, err := os.Readlink(link); err == nil && strings.Contains(target, mark) {
			return true
		}
	}
	if mounts, err := os.ReadFile(dir + "/mountinfo"); err == nil && !sameNamespace(pid) {
		for line := range strings.Lines(string(mounts)) {
			if mountHas(line, mark) {
				return true
			}
		}
	}
	return CommandHas(mark)(pid)
}

// sameNamespace reports whether a process sees the mounts of this one.
func sameNamespace(pid int) bool {
	mine, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return true
	}
	its, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	return err != nil || its == mine
}

// mountHas reports whether a line of mountinfo, or the file behind it, has the mark.
func mountHas(line, mark string) bool { return strings.Contains(line+backingOf(line), mark) }

func unmountMarked(mark string) error {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var errs []error
	lines := strings.Split(string(text), "\n")
	slices.Reverse(lines) // the last first: they lie on each other
	for _, line := range lines {
		if fields := strings.Fields(line); len(fields) > 4 && mountHas(line, mark) {
			if err := syscall.Unmount(fields[4], syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) {
				errs = append(errs, fmt.Errorf("unmount %s: %w", fields[4], err))
			}
		}
	}
	return errors.Join(errs...)
}

func detachMarked(mark string) error {
	var errs []error
	for _, file := range globAll("/sys/block/loop*/loop/backing_file") {
		backing, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(backing), mark) {
			continue
		}
		device := "/dev/" + strings.Split(file, "/")[3]
		if out, err := exec.CommandContext(context.Background(), "losetup", "--detach", device).CombinedOutput(); err != nil {
			errs = append(errs, fmt.Errorf("detach %s: %w: %s", device, err, out))
		}
	}
	return errors.Join(errs...)
}

// globAll is filepath.Glob for patterns that are ours.
func globAll(pattern string) []string {
	found, err := filepath.Glob(pattern)
	if err != nil {
		panic(err)
	}
	return found
}
