package linux

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/cgroup"
	"github.com/sandkasten/sandkasten/internal/sandbox/netns"
	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
)

// sandbox is a handle. All it knows is on disk too.
type sandbox struct {
	d     *Driver
	state state
}

func (s *sandbox) ID() runtime.ID { return s.state.ID }

// DialRunner connects to the socket that the runner listens on, or uses the
// connection that is parked.
func (s *sandbox) DialRunner(ctx context.Context) (net.Conn, error) {
	if conn := s.d.parked.take(s.state.ID); conn != nil {
		return conn, nil
	}
	conn, err := s.d.dial(ctx, s.state.ID)
	if errors.Is(err, unix.ECONNREFUSED) && s.state.Process.alive(s.d.bootID) {
		// A runner that is ready listens until it ends, so what has its name is
		// another file. Without it Open says how it is.
		err = errors.Join(err, os.RemoveAll(filepath.Join(s.d.dir(s.state.ID), socketFile)))
	}
	if errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.ENOENT) {
		return nil, errdefs.Wrap(err, errdefs.NotFound, "sandbox %s is not running", s.state.ID)
	}
	return conn, err
}

// Park implements runtime.Parker.
func (s *sandbox) Park(conn net.Conn) { s.d.parked.put(s.state.ID, conn) }

func (d *Driver) dial(ctx context.Context, id runtime.ID) (net.Conn, error) {
	addr, done, err := d.socketAddr(id)
	if err != nil {
		return nil, err
	}
	defer done()
	return (&net.Dialer{}).DialContext(ctx, "unix", addr)
}

// socketAddr names a sandbox's socket in a form short enough for a socket
// address, however long the data directory's path is. done must be called
// when the address is no longer used.
func (d *Driver) socketAddr(id runtime.ID) (addr string, done func(), err error) {
	fd, err := sys.Open(unix.AT_FDCWD, d.dir(id), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", fd, socketFile), func() { sys.Close(fd) }, nil
}

// Pause freezes the workload's cgroup. The runner is in another one.
func (s *sandbox) Pause(ctx context.Context) error {
	group := s.group()
	if err := freeze(ctx, group); err != nil {
		return err
	}
	s.d.swapOut(s.state.ID, group)
	return nil
}

// freeze returns when no program of the group runs. When it fails they go on.
func freeze(ctx context.Context, group cgroup.Group) error {
	ctx, cancel := context.WithTimeout(ctx, freezeTimeout)
	defer cancel()
	err := group.Freeze(true)
	if err == nil {
		err = awaitDone(ctx, group.Frozen, "a program in the sandbox cannot be stopped now: it waits in the kernel")
	}
	if err != nil {
		return errors.Join(err, group.Freeze(false))
	}
	return nil
}

// Resume undoes Pause. It takes the swap away last: whoever gives it looks
// after that whether the sandbox is still paused, so a running one has none.
func (s *sandbox) Resume(context.Context) error {
	group := s.group()
	return errors.Join(group.Freeze(false), group.SwapIn())
}

// swapOut gives the host the memory of a paused sandbox in the background,
// where it has swap. It is a favour to the others: what it cannot do is no
// failure of the pause.
func (d *Driver) swapOut(id runtime.ID, group cgroup.Group) {
	table, err := os.ReadFile("/proc/swaps")
	if err != nil || strings.Count(string(table), "\n") < 2 { // its first line is a heading
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	paused := func() bool {
		paused, err := group.Freezing()
		return err == nil && paused
	}
	d.wg.Go(func() {
		err := group.SwapOut(func() bool { return !d.closing() && paused() })
		if !paused() {
			err = errors.Join(err, group.SwapIn())
		}
		if err != nil {
			d.opts.Log.Debug("swap out a paused sandbox", "sandbox", id, "err", err)
		}
	})
}

// Paused asks the kernel, which remembers it.
func (s *sandbox) Paused() (bool, error) { return s.group().Freezing() }

func (s *sandbox) group() cgroup.Group { return s.d.group(&s.state) }

var _ runtime.Networked = (*sandbox)(nil)

// NetNS implements runtime.Networked.
func (s *sandbox) NetNS(context.Context) (*os.File, error) {
	return netns.Open(s.state.Process.PID, func() error {
		state, err := s.state.Process.find(s.d.bootID)
		if err == nil && !state.Running() {
			err = errdefs.New(errdefs.NotFound, "sandbox %s is not running", s.state.ID)
		}
		return err
	})
}

// Stats reads the cgroups and the disk.
func (s *sandbox) Stats(context.Context) (runtime.Stats, error) {
	if !s.state.Process.alive(s.d.bootID) {
		return runtime.Stats{}, errdefs.New(errdefs.NotFound, "sandbox %s is not running", s.state.ID)
	}
	u := s.group().Usage()
	l := s.state.Spec.Limits
	st := runtime.Stats{
		MemoryBytes: u.Memory, MemoryPeak: u.MemoryPeak, MemoryLimit: l.MemoryMB << 20,
		CPUUsageUsec: u.CPUUsec, CPULimit: l.CPU,
		Pids: u.Pids, PidsLimit: l.Pids,
		DiskLimit: l.DiskMB << 20, OOMKills: u.OOMKills,
	}
	root, err := openRoot(s.state.Process.PID)
	if err != nil {
		return st, nil //nolint:nilerr // it ended just now; what was read is still true
	}
	defer sys.Close(root)
	var fs unix.Statfs_t
	if err := unix.Fstatfs(root, &fs); err == nil {
		st.DiskBytes = int64(fs.Blocks-fs.Bfree) * fs.Bsize
		st.Files, st.FilesLimit = int64(fs.Files-fs.Ffree), int64(fs.Files)
	}
	return st, nil
}
