package linux

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/failpoint"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/disk"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/ids"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/inspect"
	"github.com/sandkasten/sandkasten/internal/sandbox/guest"
	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
)

// Destroy ends a sandbox in whatever state it is. It works from disk and from
// the ID alone, so it finishes what a crash has interrupted.
func (d *Driver) Destroy(ctx context.Context, id runtime.ID) error {
	if err := guest.CheckSpec(id, runtime.Spec{}); err != nil {
		return err
	}
	d.parked.drop(id)
	// Read first: the block is given back last, and once, since from then on it
	// may be somebody else's.
	s, err := d.readState(id)
	if _, unreadable := errors.AsType[*fs.PathError](err); unreadable && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("destroy sandbox %s: %w", id, err) // there may be a process that only the file knows
	}
	if err != nil {
		if err := d.recall(s); err != nil {
			return fmt.Errorf("destroy sandbox %s: %w", id, err)
		}
	}
	for _, step := range []struct {
		name string
		do   func(context.Context, runtime.ID) error
	}{
		{"killed", func(ctx context.Context, id runtime.ID) error { return d.kill(ctx, id, s, d.discard) }},
		{"cgroups", func(context.Context, runtime.ID) error { return d.removeGroup(s) }},
		{"files", d.removeFiles},
	} {
		if err := errors.Join(step.do(ctx, id), failpoint.Hit("linux.destroy."+step.name)); err != nil {
			return fmt.Errorf("destroy sandbox %s, step %q: %w", id, step.name, err)
		}
	}
	if !s.Stopped {
		d.ids.Free(s.IDs)
	}
	return nil
}

// recall fills in what can be told of a sandbox whose state is lost: its control
// group, unless that is another one's by now, belongs to the root of its ids,
// and by those its runner is known.
func (d *Driver) recall(s *state) error {
	if d.claimed(s.ID) {
		s.Group = noGroup
		return nil
	}
	owner, err := d.group(s).Owner()
	if err != nil || owner <= 0 {
		return err
	}
	pids, err := d.cgroups.RunnerPIDs()
	if err != nil {
		return err
	}
	runner, found, err := inspect.ActingAs("/proc", pids, ids.Base(owner).Runner())
	if found {
		s.IDs, s.Process = ids.Base(owner), process{BootID: d.bootID, PID: runner.PID, StartTime: runner.Start}
	}
	return err
}

// endRunner kills a runner and waits for its end.
func (d *Driver) endRunner(ctx context.Context, p process) error {
	pidfd, err := p.pidfd(d.bootID)
	if err != nil || pidfd < 0 {
		return err
	}
	defer sys.Close(pidfd)
	return errors.Join(endProcess(ctx, pidfd), reapChild(p.PID))
}

// discard drops what is still unwritten of a disk instead of writing it for
// nobody. A disk that cannot do this is only slower to unmount.
func (d *Driver) discard(id runtime.ID, diskDir int) error {
	if err := disk.Discard(diskDir, d.diskPath(id)); err != nil {
		d.opts.Log.Debug("discard a disk's unwritten data", "sandbox", id, "err", err)
	}
	return nil
}

// noGroup is the name of no control group: ids have no dots.
const noGroup = ".none"

// claimed reports whether the control group named id is that of a sandbox with
// another id.
func (d *Driver) claimed(id runtime.ID) bool {
	entries, err := os.ReadDir(d.sandboxes)
	for _, e := range entries {
		if s, err := d.readState(runtime.ID(e.Name())); err == nil && s.groupName() == string(id) && s.ID != id {
			return true
		}
	}
	return err != nil // unknown is not free
}

func (d *Driver) removeGroup(s *state) error { return d.group(s).Remove(cgroupTimeout) }

// removeFiles deletes a handful of files, the disk's image among them: what
// the sandbox wrote is inside the image and need not be walked.
func (d *Driver) removeFiles(_ context.Context, id runtime.ID) error {
	if err := disk.Remove(d.diskPath(id)); err != nil {
		return err
	}
	return os.RemoveAll(d.dir(id))
}

// kill ends every process of the sandbox and waits until they and their
// mounts are gone. In between, when a directory on the disk that it holds is
// the last use of the disk's mount, last may act on what is unwritten.
func (d *Driver) kill(ctx context.Context, id runtime.ID, s *state, last func(id runtime.ID, diskDir int) error) error {
	p := &s.Process
	ctx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	// Also of a zombie, whose other threads are waited for too: the runner is
	// not in the group, whose emptiness says nothing about it.
	pidfd, err := p.pidfd(d.bootID)
	if err != nil {
		return err
	}
	diskDir := -1
	if pidfd >= 0 {
		diskDir = d.openDisk(id, s)
	}
	defer func() { sys.Close(pidfd, diskDir) }()
	group := d.group(s)
	// The runner first: of the others' end it would tell as if they had ended by
	// themselves.
	if err := errors.Join(killProcess(pidfd), group.Kill(), failpoint.Hit("linux.kill.signaled")); err != nil {
		return err
	}
	if pidfd >= 0 {
		if err := endProcess(ctx, pidfd); err != nil {
			return err
		}
	}
	if diskDir >= 0 {
		if err := last(id, diskDir); err != nil {
			return err
		}
	}
	if err := waitEmpty(ctx, group.Populated); err != nil {
		return err
	}
	if p.BootID == d.bootID {
		return reapChild(p.PID)
	}
	return nil
}

// openDisk opens a directory on the sandbox's disk, or returns -1. That is
// what the runner has at /workspace, but for a runner that has not entered its
// sandbox, where it is the host's, and for a sandbox whose workspace is not on
// its disk: that workspace stays, and the disk is mounted once more.
func (d *Driver) openDisk(id runtime.ID, s *state) int {
	dir, path := -1, filepath.Base(guest.Workspace)
	var err error
	if s.Spec.Workspace == "" {
		dir, err = openRoot(s.Process.PID)
	} else {
		dir, err = disk.MountAgain(d.diskPath(id))
		path = disk.Workspace
	}
	if err != nil || dir < 0 {
		return -1
	}
	defer sys.Close(dir)
	fd, err := sys.Openat2(dir, path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0,
		unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return -1
	}
	return fd
}

// openRoot opens the root directory that a process has.
func openRoot(pid int) (int, error) {
	return sys.Open(unix.AT_FDCWD, "/proc/"+strconv.Itoa(pid)+"/root", unix.O_PATH|unix.O_DIRECTORY, 0)
}

// pidfd returns a handle on exactly this process, or -1 when it is gone.
func (p *process) pidfd(bootID string) (int, error) {
	if state, err := p.find(bootID); err != nil || state == 0 {
		return -1, err
	}
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return -1, nil
	}
	if err != nil {
		return -1, os.NewSyscallError("pidfd_open", err)
	}
	// The number may have changed hands before the handle was there.
	state, err := p.find(bootID)
	if err != nil || state == 0 {
		sys.Close(fd)
		return -1, err
	}
	return fd, nil
}

// endProcess kills a runner and waits for its end. With PID 1 the kernel ends the
// whole namespace, and PID 1 ends last: when it is gone, all are.
func endProcess(ctx context.Context, pidfd int) error {
	if err := killProcess(pidfd); err != nil {
		return err
	}
	for {
		fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 100)
		if err != nil && err != unix.EINTR {
			return os.NewSyscallError("poll", err)
		}
		if n > 0 {
			return nil
		}
		if ctx.Err() != nil {
			return errors.New("the processes did not end: one may be stuck in the kernel; it is tried again later")
		}
	}
}

// killProcess kills a process that is there; -1 is none.
func killProcess(pidfd int) error {
	if pidfd < 0 {
		return nil
	}
	if err := unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return os.NewSyscallError("pidfd_send_signal", err)
	}
	return nil
}

// reapChild collects the runner's exit if it was our child; after a restart
// of the daemon it is init's.
func reapChild(pid int) error {
	for {
		_, err := unix.Wait4(pid, nil, unix.WNOHANG|unix.WALL, nil)
		switch err {
		case unix.EINTR:
			continue
		case nil, unix.ECHILD:
			return nil
		}
		return os.NewSyscallError("wait4", err)
	}
}

// waitEmpty waits until the group has no process: the cgroups can only be
// removed then, and a runner that died by itself was not waited for.
func waitEmpty(ctx context.Context, populated func() (bool, error)) error {
	gone := func() (bool, error) {
		busy, err := populated()
		return !busy, err
	}
	return awaitDone(ctx, gone, "the cgroup still has processes; it is tried again later")
}

// awaitDone looks until the kernel has done what it was told, and fails with
// otherwise when ctx is done.
func awaitDone(ctx context.Context, done func() (bool, error), otherwise string) error {
	for pause := 500 * time.Microsecond; ; pause = min(2*pause, 50*time.Millisecond) {
		if ok, err := done(); err != nil || ok {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.New(otherwise)
		case <-time.After(pause):
		}
	}
}
