package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrInUse is Own's error for a name that a Manager has, of this process or of
// another one on this host, whatever it sees of our files.
var ErrInUse = errors.New("another daemon on this host has the control groups of this installation: it works on a copy of this data directory, or on this one")

// ownAgain is Own for directories that replace removed ones.
func (m *Manager) ownAgain() error {
	m.mu.Lock()
	owned := m.lock != nil
	m.mu.Unlock()
	if !owned {
		return nil
	}
	return m.Own()
}

// Own takes our name in the tree that all daemons of a host share, until Close.
func (m *Manager) Own() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, err := os.Open(filepath.Join(m.unified, m.name))
	if err != nil {
		return err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case err == nil && m.lock == nil:
		m.lock = f
		return nil
	case err == nil: // the directory was removed and is another one now
		err = m.lock.Close()
		m.lock = f
		return err
	case errors.Is(err, unix.EWOULDBLOCK) && m.lock != nil: // by us
		return f.Close()
	case errors.Is(err, unix.EWOULDBLOCK):
		return errors.Join(fmt.Errorf("%s: %w", f.Name(), ErrInUse), f.Close())
	}
	return errors.Join(os.NewSyscallError("flock", err), f.Close())
}

// Deserted reports whether no process is in the groups of another daemon, which
// does not run either. What it has leased nobody uses then.
func (m *Manager) Deserted(node string) bool {
	dir := filepath.Join(m.unified, filepath.Dir(m.name), node)
	f, err := os.Open(dir)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return false
	}
	events, err := os.ReadFile(filepath.Join(dir, "cgroup.events"))
	return err == nil && strings.Contains(string(events), "populated 0")
}

// Used are the ids that an installation, of this host and maybe not ours, has given groups of
// sandboxes to (see Group.Create), and those of its runners that can be seen from here.
func (m *Manager) Used(node string) (owners, runnerPIDs []int, err error) {
	other := Manager{unified: m.unified, name: filepath.Join(filepath.Dir(m.name), node)}
	entries, err := os.ReadDir(filepath.Join(m.unified, other.name))
	if err != nil {
		return nil, nil, ignoreMissing(err)
	}
	for _, e := range entries {
		if !e.IsDir() || e.Name() == runners {
			continue
		}
		owner, ownerErr := other.Group(e.Name()).Owner()
		if ownerErr != nil {
			return nil, nil, ownerErr
		}
		owners = append(owners, owner)
	}
	runnerPIDs, err = other.RunnerPIDs()
	return owners, runnerPIDs, err
}

// LeaseDir is where daemons of this host lease what they share. Like the groups
// it is gone after a reboot.
func (m *Manager) LeaseDir() string { return filepath.Join(m.unified, filepath.Dir(m.name), "_ids") }

// Close removes our own directories if no sandbox is left in them.
func (m *Manager) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	if m.lock != nil {
		defer func() { m.lock = nil }()
		defer m.lock.Close() // last: it was only read
	}
	for _, root := range m.roots() {
		for _, dir := range []string{filepath.Join(root, m.name, runners), filepath.Join(root, m.name)} {
			if err := unix.Rmdir(dir); err != unix.EBUSY && err != unix.ENOTEMPTY {
				errs = append(errs, ignoreMissing(err))
			}
		}
	}
	return errors.Join(errs...)
}
