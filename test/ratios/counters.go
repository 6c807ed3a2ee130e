package ratios

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// processorTime is what all threads of a process have had of processors.
func processorTime(pid int) (time.Duration, error) {
	// A clock of a process, as clock_getcpuclockid makes it: the complement of
	// the process above three bits, which say that it is the scheduler's clock.
	const scheduler = 2
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduler), &t); err != nil {
		return 0, os.NewSyscallError("clock_gettime", err)
	}
	return time.Duration(t.Nano()), nil
}

// parseAllocations reads how many objects a Go program has allocated from the
// page of its profiler about the heap.
func parseAllocations(page []byte) (float64, error) {
	const name = "# Mallocs = "
	for line := range bytes.Lines(page) {
		if value, ok := bytes.CutPrefix(line, []byte(name)); ok {
			return strconv.ParseFloat(string(bytes.TrimSpace(value)), 64)
		}
	}
	return 0, errors.New("the profile of the heap does not count objects")
}

// schedulerCalls are those that the Go runtime makes for its threads and its
// heap. How many there are depends on what else the machine does.
var schedulerCalls = []string{
	"epoll_pwait", "epoll_wait", "futex", "getpid", "madvise", "mmap", "munmap", "nanosleep", "restart_syscall", "rt_sigreturn", "sched_yield", "tgkill",
}

// countCalls counts the system calls that a process makes until use returns, by
// name. Children count until they become another program. Calls that failed as
// there was nothing to be read yet are left out, as are those of the scheduler:
// they are a matter of timing.
func countCalls(ctx context.Context, pid int, dir string, use func() error) (map[string]int, error) {
	summary := filepath.Join(dir, "calls")
	tracer := exec.CommandContext(ctx, "strace", "-c", "-f", "-b", "execve", "-U", "calls,errors,name", "-o", summary, "-p", strconv.Itoa(pid))
	said, err := tracer.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := tracer.Start(); err != nil {
		return nil, fmt.Errorf("start strace: %w", err)
	}
	err = awaitAttached(said)
	if err == nil {
		err = use()
	}
	// It ends by the signal that it was sent, after it has let go of the process.
	err = errors.Join(err, tracer.Process.Signal(unix.SIGINT))
	rest, readErr := io.ReadAll(said)
	if err := errors.Join(err, readErr, interrupted(tracer.Wait())); err != nil {
		return nil, fmt.Errorf("count system calls: %w\n%s", err, rest)
	}
	text, err := os.ReadFile(summary)
	if err != nil {
		return nil, err
	}
	return parseCalls(text)
}

// awaitAttached returns when strace has stopped all threads of the process once.
func awaitAttached(said io.Reader) error {
	lines := bufio.NewReader(said)
	for {
		line, err := lines.ReadString('\n')
		if strings.Contains(line, " attached") {
			return nil
		}
		if err != nil {
			return fmt.Errorf("strace does not attach: %w: %s", err, line)
		}
	}
}

// interrupted is nil if a command ended by SIGINT.
func interrupted(err error) error {
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signal() == unix.SIGINT {
			return nil
		}
	}
	return err
}

// parseCalls reads what strace -c prints with the columns calls, errors and name.
func parseCalls(text []byte) (map[string]int, error) {
	calls := map[string]int{}
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
		if len(fields) < 2 {
			continue
		}
		name := fields[len(fields)-1]
		n, err := strconv.Atoi(fields[0])
		if err != nil || name == "total" { // a heading
			continue
		}
		if len(fields) == 3 && (name == "read" || strings.HasPrefix(name, "recv") || strings.HasPrefix(name, "accept")) {
			failed, err := strconv.Atoi(fields[1])
			if err != nil {
				return nil, fmt.Errorf("parse %q: %w", line, err)
			}
			n -= failed
		}
		if !slices.Contains(schedulerCalls, name) {
			calls[name] = n
		}
	}
	if len(calls) == 0 {
		return nil, fmt.Errorf("strace counted nothing: %s", text)
	}
	return calls, nil
}
