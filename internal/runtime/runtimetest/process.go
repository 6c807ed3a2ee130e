package runtimetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/protocol"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// processes returns the ids of the sandbox's processes: those with its mark in
// the environment that they were started with. They are below this process or,
// when the runner or another parent has ended, orphans.
func (s *localSandbox) processes() ([]int, error) {
	pids, err := testenv.Offspring(s.marked)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(pids, func(pid int) bool { return !s.marked(pid) }), nil
}

// marked reports whether a process lives and is the sandbox's.
func (s *localSandbox) marked(pid int) bool {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return false // it has ended, or is another user's
	}
	variables := bytes.Split(env, []byte{0})
	return slices.ContainsFunc(variables, func(v []byte) bool { return string(v) == s.mark() })
}

// isRunner reports whether a process lives and is the sandbox's runner, which
// has no mark yet for a moment after it was started.
func (s *localSandbox) isRunner(pid int) bool {
	r, err := s.load()
	return err == nil && r.PID == pid && s.alive()
}

// signal sends a signal to one of the sandbox's processes, if it is there.
func (s *localSandbox) signal(pid int, number unix.Signal) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return os.NewSyscallError("pidfd_open", err)
	}
	// The number may have gone to another process before the descriptor was
	// opened, but not after.
	if s.marked(pid) || s.isRunner(pid) {
		err = unix.PidfdSendSignal(fd, number, nil, 0)
	}
	if err := errors.Join(err, unix.Close(fd)); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}

// kill kills all of the sandbox's processes and returns how many it found. One
// that is new since is found by the next call.
func (s *localSandbox) kill() (found int, err error) {
	pids, err := s.processes()
	if err != nil {
		return 0, err
	}
	if r, err := s.load(); err == nil && s.isRunner(r.PID) && !slices.Contains(pids, r.PID) {
		pids = append(pids, r.PID)
	}
	for _, pid := range pids {
		if err := s.signal(pid, unix.SIGKILL); err != nil {
			return 0, err
		}
	}
	if r, err := s.load(); err == nil && !r.Stopped {
		reap(r.PID)
	}
	return len(pids), nil
}

// killAll kills until there is none, and waits for the runner.
func (s *localSandbox) killAll(ctx context.Context) error {
	err := again(ctx, func() (bool, error) {
		left, err := s.kill()
		return left == 0, err
	})
	if err == nil {
		s.bury()
	}
	return err
}

// again calls do until it is done, fails or ctx is done.
func again(ctx context.Context, do func() (done bool, err error)) error {
	for {
		if done, err := do(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// Pause implements runtime.Pauser: a stopped process starts no other, and nor
// does the runner.
func (s *localSandbox) Pause(ctx context.Context) error {
	if err := os.WriteFile(s.pausedFile(), nil, 0o600); err != nil {
		return err
	}
	if err := s.hold(ctx, true); err != nil {
		return errors.Join(err, s.Resume(context.WithoutCancel(ctx)))
	}
	err := again(ctx, func() (bool, error) {
		running := 0
		err := s.eachProgram(func(pid int, state string) error {
			if strings.Contains("TtZX", state) {
				return nil
			}
			running++
			return s.signal(pid, unix.SIGSTOP)
		})
		return running == 0, err
	})
	if err != nil {
		return errors.Join(err, s.Resume(context.WithoutCancel(ctx)))
	}
	return nil
}

// Resume implements runtime.Pauser.
func (s *localSandbox) Resume(ctx context.Context) error {
	if err := os.Remove(s.pausedFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := s.eachProgram(func(pid int, _ string) error { return s.signal(pid, unix.SIGCONT) })
	return errors.Join(err, s.hold(ctx, false))
}

// hold tells the runner whether it may start programs.
func (s *localSandbox) hold(ctx context.Context, on bool) (err error) {
	conn, err := s.DialRunner(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := protocol.NewWriter(conn).Send(protocol.TypeHold, protocol.Hold{On: &on}, nil); err != nil {
		return err
	}
	_, err = protocol.NewReader(conn, protocol.Runner).Next()
	return err
}

// Paused implements runtime.Pauser.
func (s *localSandbox) Paused() (bool, error) {
	_, err := os.Stat(s.pausedFile())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// eachProgram calls do with every process but the runner, and its state as
// /proc has it.
func (s *localSandbox) eachProgram(do func(pid int, state string) error) error {
	r, err := s.load()
	if err != nil {
		return err
	}
	pids, err := s.processes()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if pid == r.PID {
			continue
		}
		fields, err := statFields(pid)
		if err != nil {
			continue // it has just ended
		}
		if err := do(pid, fields[0]); err != nil {
			return err
		}
	}
	return nil
}

// bury waits for the runner that was killed, if it is a child of this process:
// it has lost its environment a moment before it can be waited for.
func (s *localSandbox) bury() {
	r, err := s.load()
	if err != nil || r.Stopped {
		return // it was never started, or is buried
	}
	for {
		_, err := unix.Wait4(r.PID, nil, 0, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// reap waits for a dead child, so that no zombie keeps its number. A process
// that lives, or is another's child, is left alone.
func reap(pid int) {
	for {
		_, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// startTime returns when a living process started, in ticks since boot.
func startTime(pid int) (uint64, error) {
	reap(pid)
	fields, err := statFields(pid)
	if err != nil {
		return 0, err
	}
	if state := fields[0]; state == "Z" || state == "X" {
		return 0, fs.ErrNotExist
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

// statFields returns the fields of /proc/PID/stat from the state on, which is
// the third.
func statFields(pid int) ([]string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	// The name, in parentheses, may hold anything.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return nil, fmt.Errorf("cannot read /proc/%d/stat", pid)
	}
	return fields, nil
}

// measure fills in what /proc tells of the sandbox's processes.
func (s *localSandbox) measure(stats *runtime.Stats, runner int) error {
	pids, err := s.processes()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		dir := fmt.Sprintf("/proc/%d/", pid)
		statm, err := os.ReadFile(dir + "statm")
		if err != nil {
			continue // it has just ended
		}
		var size, resident int64
		if _, err := fmt.Sscan(string(statm), &size, &resident); err != nil {
			return fmt.Errorf("read %sstatm: %w", dir, err)
		}
		stats.MemoryBytes += resident * int64(os.Getpagesize())
		stats.Pids++
		if pid == runner {
			continue // its time is not the sandbox's
		}
		usec, err := cpuTime(pid)
		if err != nil {
			continue
		}
		stats.CPUUsageUsec += usec
	}
	stats.MemoryPeak = stats.MemoryBytes
	return nil
}

// cpuTime returns the time that a process and its dead children have used.
func cpuTime(pid int) (usec int64, err error) {
	fields, err := statFields(pid)
	if err != nil {
		return 0, err
	}
	for _, field := range fields[11:15] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		usec += ticks * 10_000 // USER_HZ is 100 on every Linux we run on
	}
	return usec, nil
}
