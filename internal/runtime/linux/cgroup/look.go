package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Look is New for who only reads: it makes nothing.
func Look(mountinfo, name string) (*Manager, error) {
	m, err := detect(mountinfo)
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
	text, err := os.ReadFile(filepath.Join(m.unified, m.name, runners, "cgroup.procs"))
	if err != nil {
		return nil, optional(err)
	}
	var pids []int
	for field := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// Owner is the id that Create gave the group to, or -1 where there is none.
func (g Group) Owner() (int, error) {
	var st unix.Stat_t
	err := unix.Stat(g.unified(), &st)
	if err != nil {
		return -1, optional(os.NewSyscallError("stat", err))
	}
	return int(st.Uid), nil
}
