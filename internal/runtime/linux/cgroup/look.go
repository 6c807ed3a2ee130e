package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Look is New for who only reads: it makes nothing.
func Look(mountinfo, name string) (*Manager, error) {
	m, err := detectHierarchy(mountinfo)
	if err != nil {
		return nil, err
	}
	m.name = name
	return m, nil
}

// words are those of a line of mountinfo, in whose paths no other white space than
// the space is written otherwise.
func words(line string) []string {
	return strings.FieldsFunc(line, func(r rune) bool { return r == ' ' })
}

// RunnerPIDs are the processes in the group of all runners.
func (m *Manager) RunnerPIDs() ([]int, error) {
	return readPIDs(filepath.Join(m.unified, m.name, runners))
}

// Exists reports whether the group is there.
func (g Group) Exists() (bool, error) {
	_, err := os.Stat(g.unified())
	return err == nil, ignoreMissing(err)
}

// EndAll kills the group's processes for a group that goes on, as Kill does not:
// kernels since 6.14 kill whatever is cloned into a group that was once killed.
// They stand still meanwhile, so that none forks, or leaves its number to another.
// A group that was frozen before stays so.
func (g Group) EndAll() error {
	frozen, err := g.Freezing()
	if err := errors.Join(err, g.Freeze(true)); err != nil {
		return err
	}
	pids, err := g.PIDs()
	errs := []error{err}
	for _, pid := range pids {
		if err := unix.Kill(pid, unix.SIGKILL); err != unix.ESRCH {
			errs = append(errs, os.NewSyscallError("kill", err))
		}
	}
	return errors.Join(append(errs, g.Freeze(frozen))...)
}

// Owner is the id that Create gave the group to, or -1 where there is none.
func (g Group) Owner() (int, error) {
	var st unix.Stat_t
	err := unix.Stat(g.unified(), &st)
	if err != nil {
		return -1, ignoreMissing(os.NewSyscallError("stat", err))
	}
	return int(st.Uid), nil
}
