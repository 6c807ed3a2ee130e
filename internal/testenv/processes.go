package testenv

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// The functions below follow the parent chain instead of reading all of /proc. A
// host may run thousands of processes, and a file such as /proc/PID/environ waits
// for that process's memory lock.

// Children returns the direct children of a process, zombies too, or none if
// the process has ended.
func Children(pid int) ([]int, error) {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var children []int
	for _, thread := range threads {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, thread.Name()))
		if err != nil {
			continue // the thread has ended; its children moved to another one
		}
		for word := range strings.FieldsSeq(string(text)) {
			child, err := strconv.Atoi(word)
			if err != nil {
				return nil, fmt.Errorf("read the children of process %d: %w", pid, err)
			}
			children = append(children, child)
		}
	}
	return children, nil
}

// Descendants returns the children of a process, their children and so on.
func Descendants(pid int) ([]int, error) { return withDescendants(nil, pid) }

// withDescendants appends the descendants of processes to known. It visits each
// process once: a child may move to another parent during the walk.
func withDescendants(known []int, roots ...int) ([]int, error) {
	seen := map[int]bool{}
	for _, pid := range known {
		seen[pid] = true
	}
	for len(roots) > 0 {
		children, err := Children(roots[0])
		if err != nil {
			return nil, err
		}
		roots = roots[1:]
		for _, child := range children {
			if !seen[child] {
				seen[child] = true
				known, roots = append(known, child), append(roots, child)
			}
		}
	}
	return known, nil
}

// Offspring returns the descendants of this process, and with their descendants
// the orphans that mine accepts. The kernel gives an orphan to an ancestor of
// the process that started it: to init or to one that adopts ("subreaper").
func Offspring(mine func(pid int) bool) ([]int, error) {
	found, err := Descendants(os.Getpid())
	if err != nil {
		return nil, err
	}
	var orphans []int
	for _, ancestor := range ancestors() {
		children, err := Children(ancestor)
		if err != nil {
			return nil, err
		}
		for _, pid := range children {
			if pid != os.Getpid() && !slices.Contains(found, pid) && mine(pid) {
				orphans = append(orphans, pid)
			}
		}
	}
	return withDescendants(append(found, orphans...), orphans...)
}

// ancestors are the parent of this process, its parent and so on to init.
func ancestors() []int {
	var found []int
	for pid := os.Getppid(); pid > 0 && !slices.Contains(found, pid); pid = parentOf(pid) {
		found = append(found, pid)
	}
	if !slices.Contains(found, 1) {
		found = append(found, 1) // an ancestor has ended during the walk
	}
	return found
}

// parentOf is the parent of a process, or 0 if the process has ended.
func parentOf(pid int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name, in parentheses, may hold anything.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 2 {
		return 0
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return parent
}

// CommandHas returns a condition for Offspring: the process's command line
// contains text.
func CommandHas(text string) func(pid int) bool {
	return func(pid int) bool {
		line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		return err == nil && strings.Contains(string(line), text)
	}
}
