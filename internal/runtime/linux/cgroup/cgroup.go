// Package cgroup makes, reads and removes the control groups of sandboxes, on
// hosts with cgroup v2 and on those that still have v1 controllers beside a
// v2 tree without any (hybrid). It touches nothing but its own directories.
//
// On v2 a sandbox's workload is one directory with all limits. On a hybrid
// host it is one directory in each of memory, cpu and pids, and one in the v2
// tree from which all can be killed at once.
// The runners of a daemon are in one group without limits: in the workload's
// they would be what the kernel kills when a sandbox is out of memory, and a
// group of its own costs the host 300 KB each.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
)

// Manager works below the host's cgroup mounts in directories named Name.
type Manager struct {
	unified string            // the v2 tree
	v1      map[string]string // controller to mount point; empty on a pure v2 host
	name    string            // our directory below each, "sandkasten/<node>"

	mu   sync.Mutex
	lock *os.File // guarded by mu; keeps others with our name away
}

// runners is the group of all runners. No sandbox has that name.
const runners = "_runners"

// New finds the host's cgroup mounts in mountinfo (a copy of
// /proc/self/mountinfo) and makes the directory name in each that is needed.
func New(mountinfo, name string) (*Manager, error) {
	m, err := detectHierarchy(mountinfo)
	if err != nil {
		return nil, err
	}
	m.name = name
	return m, m.prepare()
}

// prepare makes our directories in each tree, as far as they are not there.
func (m *Manager) prepare() error {
	for _, root := range m.roots() {
		// 0700: see share.
		if err := os.MkdirAll(filepath.Join(root, m.name), 0o700); err != nil {
			return fmt.Errorf("make our cgroup: %w", err)
		}
	}
	if err := m.ownAgain(); err != nil {
		return err
	}
	if m.Hybrid() {
		return share(filepath.Join(m.unified, m.name))
	}
	dir := m.unified
	for _, part := range append([]string{""}, strings.Split(m.name, "/")...) {
		dir = filepath.Join(dir, part)
		if err := enable(dir, "memory", "cpu", "pids"); err != nil {
			return err
		}
	}
	return share(dir)
}

// share lets runners, each of which has an id of its own, start processes in
// their workload's group: for that one must be able to write the procs file
// of the directory that both groups are in. By that file alone nobody can move
// anything, and only root can reach it.
func share(dir string) error {
	return errors.Join(os.Chmod(dir, 0o700), os.Chmod(filepath.Join(dir, "cgroup.procs"), 0o666))
}

// detectHierarchy reads the mounts. It wants a v2 tree, and where that has no
// controllers the three v1 ones.
func detectHierarchy(mountinfo string) (*Manager, error) {
	m := &Manager{v1: map[string]string{}}
	for line := range strings.Lines(mountinfo) {
		pre, post, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		f, g := words(pre), words(post)
		if !ok || len(f) < 5 || len(g) < 3 {
			continue
		}
		switch g[0] {
		case "cgroup2":
			if m.unified == "" {
				m.unified = f[4]
			}
		case "cgroup":
			for _, opt := range strings.Split(g[2], ",") {
				if slices.Contains(controllers, opt) {
					m.v1[opt] = f[4]
				}
			}
		}
	}
	if m.unified == "" {
		return nil, errors.New("no cgroup v2 tree is mounted: mount one with `mount -t cgroup2 none /sys/fs/cgroup` or, beside v1, on /sys/fs/cgroup/unified")
	}
	if len(m.v1) != 0 && len(m.v1) != len(controllers) {
		return nil, fmt.Errorf("of the cgroup v1 controllers %v only %v are mounted: mount all, or boot with systemd.unified_cgroup_hierarchy=1",
			controllers, slices.Sorted(maps.Keys(m.v1)))
	}
	return m, nil
}

// Hybrid reports whether the controllers are v1.
func (m *Manager) Hybrid() bool { return len(m.v1) > 0 }

// controllers are the v1 hierarchies that count: some share one mount.
var controllers = []string{"memory", "cpu", "cpuacct", "pids"}

// roots are the mounts in which a sandbox has a directory.
func (m *Manager) roots() []string {
	out := []string{m.unified}
	for _, c := range controllers {
		if dir, ok := m.v1[c]; ok && !slices.Contains(out, dir) {
			out = append(out, dir)
		}
	}
	return out
}

// Group is a sandbox's place in all trees. It holds no resources.
type Group struct {
	m  *Manager
	id string
}

// Group names the group of id, existing or not.
func (m *Manager) Group(id string) Group { return Group{m, id} }

func (g Group) dir(root string) string { return filepath.Join(root, g.m.name, g.id) }

func (g Group) unified() string    { return g.dir(g.m.unified) }
func (g Group) v1(c string) string { return g.dir(g.m.v1[c]) }

func (g Group) memoryDir() string {
	if g.m.Hybrid() {
		return g.v1("memory")
	}
	return g.unified()
}

// Create makes the directories and sets the limits. What exists already is
// taken over. owner is whom the runner acts as when it starts processes in the
// group.
func (g Group) Create(l Limits, owner int) error {
	err := g.create(l, owner)
	if !errors.Is(err, unix.ENOENT) {
		return err
	}
	// Somebody has removed our directories, which were empty.
	if err := g.m.prepare(); err != nil {
		return err
	}
	return g.create(l, owner)
}

func (g Group) create(l Limits, owner int) error {
	for _, root := range g.m.roots() {
		if err := mkdir(g.dir(root)); err != nil {
			return err
		}
	}
	if err := g.delegate(owner); err != nil {
		return err
	}
	return g.Limit(l)
}

// maxParts bounds the groups below a sandbox's own.
const maxParts = 256

// delegate lets owner start processes in the group, and in groups that it
// makes directly below: one for each program that is to be ended as a whole.
// It cannot change a limit.
func (g Group) delegate(owner int) error {
	dir := g.unified()
	return errors.Join(
		writeNumber(dir, "cgroup.max.descendants", maxParts),
		writeNumber(dir, "cgroup.max.depth", 1),
		os.Chown(filepath.Join(dir, "cgroup.procs"), owner, owner),
		os.Chown(dir, owner, owner),
	)
}

// Runners opens the group of all runners: the v2 directory that one is to be
// cloned into, and the v1 files by which it joins. The caller closes them.
func (m *Manager) Runners() (dir int, tasks []int, err error) {
	path := filepath.Join(m.unified, m.name, runners)
	if err := mkdir(path); err != nil {
		return -1, nil, err
	}
	// Beside the groups of sandboxes: all runners together would have the share of
	// one of them.
	if err := ignoreMissing(writeNumber(path, "cpu.weight", runnersWeight)); err != nil {
		return -1, nil, err
	}
	if m.Hybrid() {
		memory := filepath.Join(m.v1["memory"], m.name, runners)
		if err := mkdir(memory); err != nil {
			return -1, nil, err
		}
		if tasks, err = openAll(unix.O_WRONLY, filepath.Join(memory, "tasks")); err != nil {
			return -1, nil, err
		}
	}
	if dir, err = sys.Open(unix.AT_FDCWD, path, unix.O_PATH|unix.O_DIRECTORY, 0); err != nil {
		sys.Close(tasks...)
		return -1, nil, err
	}
	return dir, tasks, nil
}

// Workload opens what a process of the workload joins its groups by: the v2
// directory that it is cloned into, and v1 files that it writes to. The caller
// closes them.
func (g Group) Workload() (dir int, tasks []int, err error) {
	var paths []string
	for _, root := range g.m.roots()[1:] {
		paths = append(paths, filepath.Join(g.dir(root), "tasks"))
	}
	if tasks, err = openAll(unix.O_WRONLY, paths...); err != nil {
		return -1, nil, err
	}
	if dir, err = sys.Open(unix.AT_FDCWD, g.unified(), unix.O_PATH|unix.O_DIRECTORY, 0); err != nil {
		sys.Close(tasks...)
		return -1, nil, err
	}
	return dir, tasks, nil
}

// OOMEvents opens the file whose line "oom_kill" counts the kills.
func (g Group) OOMEvents() (int, error) {
	name := "memory.events"
	if g.m.Hybrid() {
		name = "memory.oom_control"
	}
	return sys.Open(unix.AT_FDCWD, filepath.Join(g.memoryDir(), name), unix.O_RDONLY, 0)
}

func openAll(flags int, paths ...string) ([]int, error) {
	var fds []int
	for _, p := range paths {
		fd, err := sys.Open(unix.AT_FDCWD, p, flags, 0)
		if err != nil {
			sys.Close(fds...)
			return nil, err
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

// Kill sends KILL to every process of the group at once, also while they
// fork. It does not wait. A group that does not exist has none.
func (g Group) Kill() error { return ignoreMissing(writeText(g.unified(), "cgroup.kill", "1")) }

// Populated reports whether the group has a process, in any part of it.
func (g Group) Populated() (bool, error) { return g.event("populated") }

// Freeze stops every process of the group, or lets all go on. It does not
// wait until they stand still: Frozen tells.
func (g Group) Freeze(stop bool) error {
	text := "0"
	if stop {
		text = "1"
	}
	return writeText(g.unified(), "cgroup.freeze", text)
}

// SwapOut lets the memory of a group that is frozen go to the host's swap, as
// much at a time as the kernel takes, until none is left, more says no or the
// kernel has no more to give. A hybrid host cannot do it. SwapIn undoes the
// permission.
func (g Group) SwapOut(more func() bool) error {
	if g.m.Hybrid() {
		return nil
	}
	const piece = 16 << 20
	dir := g.unified()
	if err := writeText(dir, "memory.swap.max", "max"); err != nil {
		return ignoreMissing(err) // a kernel without swap
	}
	for more() && number(dir, "memory.current") > 0 {
		// EAGAIN is the kernel's word for less than that.
		if err := writeNumber(dir, "memory.reclaim", piece); err != nil {
			return ignoreMissing(ignoreError(err, unix.EAGAIN))
		}
	}
	return nil
}

// SwapIn takes the permission back. What is swapped out comes back when it is
// used.
func (g Group) SwapIn() error {
	if g.m.Hybrid() {
		return nil
	}
	return ignoreMissing(writeNumber(g.unified(), "memory.swap.max", 0))
}

func ignoreError(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// Frozen reports whether no process of the group runs because of Freeze. A
// group without processes is frozen as soon as it is told to be.
func (g Group) Frozen() (bool, error) { return g.event("frozen") }

// Freezing reports what Freeze was last told.
func (g Group) Freezing() (bool, error) {
	b, err := os.ReadFile(filepath.Join(g.unified(), "cgroup.freeze"))
	return strings.TrimSpace(string(b)) == "1", ignoreMissing(err)
}

// event reads one of the states of the whole group. One that does not exist has none.
func (g Group) event(name string) (bool, error) {
	b, err := os.ReadFile(filepath.Join(g.unified(), "cgroup.events"))
	return strings.Contains(string(b), name+" 1"), ignoreMissing(err)
}

// Remove removes the directories, with those below. The kernel may still be
// counting out the last process, so a busy one is tried again for wait.
func (g Group) Remove(wait time.Duration) error {
	var errs []error
	deadline := time.Now().Add(wait)
	parts, err := os.ReadDir(g.unified())
	errs = append(errs, ignoreMissing(err))
	for _, part := range parts {
		if part.IsDir() {
			errs = append(errs, rmdir(filepath.Join(g.unified(), part.Name()), deadline))
		}
	}
	for _, root := range g.m.roots() {
		errs = append(errs, rmdir(g.dir(root), deadline))
	}
	return errors.Join(errs...)
}

func rmdir(dir string, deadline time.Time) error {
	for pause := time.Millisecond; ; pause *= 2 {
		err := unix.Rmdir(dir)
		switch {
		case err == nil || absent(err):
			return nil
		case err != unix.EBUSY || time.Now().Add(pause).After(deadline):
			return &os.PathError{Op: "rmdir", Path: dir, Err: err}
		}
		time.Sleep(pause) //nolint:forbidigo // the kernel tells nobody when it has counted out the last process
	}
}

// List names the groups that exist in any tree.
func (m *Manager) List() ([]string, error) {
	seen := map[string]bool{}
	var ids []string
	for _, root := range m.roots() {
		entries, err := os.ReadDir(filepath.Join(root, m.name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			if e.IsDir() && e.Name() != runners && !seen[e.Name()] {
				seen[e.Name()] = true
				ids = append(ids, e.Name())
			}
		}
	}
	return ids, nil
}

// enable makes controllers available to the directories below dir.
func enable(dir string, controllers ...string) error {
	have, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err != nil {
		return err
	}
	var missing []string
	for _, c := range controllers {
		if !strings.Contains(" "+strings.TrimSpace(string(have))+" ", " "+c+" ") {
			missing = append(missing, "+"+c)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if err := writeText(dir, "cgroup.subtree_control", strings.Join(missing, " ")); err != nil {
		return fmt.Errorf("enable cgroup controllers %v: %w", missing, err)
	}
	return nil
}

func mkdir(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func writeNumber(dir, file string, v int64) error {
	return writeText(dir, file, strconv.FormatInt(v, 10))
}

func writeText(dir, file, text string) error {
	fd, err := sys.Open(unix.AT_FDCWD, filepath.Join(dir, file), unix.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer sys.Close(fd)
	if err := sys.Write(fd, text); err != nil {
		return fmt.Errorf("%s %q: %w", filepath.Join(dir, file), text, err)
	}
	return nil
}

// ignoreMissing forgives a file or group that does not exist.
func ignoreMissing(err error) error {
	if absent(err) {
		return nil
	}
	return err
}

func absent(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV)
}
