package runtimetest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runtime"
)

// processes returns the ids of the sandbox's processes: those with its mark in
// the environment that they were started with.
func (s *localSandbox) processes() ([]int, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var found []int
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			return nil, err
		}
		if s.marked(pid) {
			found = append(found, pid)
		}
	}
	return found, nil
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

// kill kills all of the sandbox's processes and returns how many it found. One
// that is new since is found by the next call.
func (s *localSandbox) kill() (found int, err error) {
	pids, err := s.processes()
	if err != nil {
		return 0, err
	}
	// The runner has no mark yet for a moment after it was started.
	runner := 0
	if r, err := s.load(); err == nil && s.alive() {
		runner = r.PID
		if !slices.Contains(pids, runner) {
			pids = append(pids, runner)
		}
	}
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil {
			return 0, os.NewSyscallError("pidfd_open", err)
		}
		// The number may have gone to another process before the descriptor
		// was opened, but not after.
		if s.marked(pid) || pid == runner && s.alive() {
			err = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		}
		if err := errors.Join(err, unix.Close(fd)); err != nil && !errors.Is(err, unix.ESRCH) {
			return 0, err
		}
	}
	if r, err := s.load(); err == nil {
		reap(r.PID)
	}
	return len(pids), nil
}

// bury waits for the runner that was killed, if it is a child of this process:
// it has lost its environment a moment before it can be waited for.
func (s *localSandbox) bury() {
	r, err := s.load()
	if err != nil {
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
func (s *localSandbox) measure(stats *runtime.Stats) error {
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
