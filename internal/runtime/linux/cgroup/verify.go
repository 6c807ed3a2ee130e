package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Deviations are the limits of the group that are not as in l, in words. A group
// that does not exist has none.
func (g Group) Deviations(l Limits) ([]string, error) {
	var found []string
	var errs []error
	for _, s := range g.settings(l) {
		if s.varies {
			continue
		}
		text, err := os.ReadFile(filepath.Join(s.dir, s.file))
		if err != nil {
			errs = append(errs, ignoreMissing(err))
			continue
		}
		if is := strings.TrimSpace(string(text)); is != s.value {
			found = append(found, fmt.Sprintf("%s is %s instead of %s", s.file, is, s.value))
		}
	}
	return found, errors.Join(errs...)
}

// PIDs are the processes of the group in any hierarchy, and in the groups below.
func (g Group) PIDs() ([]int, error) {
	var pids []int
	for _, root := range g.m.roots() {
		err := filepath.WalkDir(g.dir(root), func(dir string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return ignoreMissing(err)
			}
			more, err := readPIDs(dir)
			pids = append(pids, more...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids), nil
}

// Members are processes of the group, of which there is at least one if it has any: for
// who needs somebody of it, at a fraction of what PIDs costs.
func (g Group) Members() ([]int, error) {
	pids, err := readPIDs(g.unified())
	if err != nil || len(pids) > 0 {
		return pids, err
	}
	parts, err := os.ReadDir(g.unified())
	if err != nil {
		return nil, ignoreMissing(err)
	}
	for _, part := range parts {
		if !part.IsDir() {
			continue
		}
		if pids, err := readPIDs(filepath.Join(g.unified(), part.Name())); err != nil || len(pids) > 0 {
			return pids, err
		}
	}
	return nil, nil
}

// readPIDs reads the processes of one directory. The kernel calls those of
// another pid namespace 0: they are left out.
func readPIDs(dir string) ([]int, error) {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil, ignoreMissing(err)
	}
	var pids []int
	for word := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			return nil, err
		}
		if pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// Expel moves a process out of all our groups, to where the host's own are.
func (m *Manager) Expel(pid int) error {
	var errs []error
	for _, root := range m.roots() {
		errs = append(errs, writeNumber(root, "cgroup.procs", int64(pid)))
	}
	return errors.Join(errs...)
}
