//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/sandkasten/sandkasten/test/vm/guest"
	"golang.org/x/sys/unix"
)

// drainTime is how long output is awaited after a job has ended: what it
// started in the background may hold its output open for ever.
const drainTime = 2 * time.Second

// runJob runs one command. The error is the machine's; how the command did is
// in End.
func runJob(job guest.Job, stdin *inputRouter, output func([]byte) error) (guest.End, error) {
	inR, inW, err := os.Pipe()
	if err != nil {
		return guest.End{}, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return guest.End{}, err
	}
	defer outR.Close()

	begin := time.Now()
	proc, err := startJob(job, inR, outW)
	inR.Close()
	outW.Close()
	if err != nil {
		inW.Close()
		message := fmt.Appendf(nil, "init: %v\n", err)
		return guest.End{Code: 127, Duration: time.Since(begin)}, output(message)
	}
	stdin.attach(inW)
	defer stdin.attach(nil)

	var timedOut atomic.Bool
	if job.Timeout > 0 {
		timer := time.AfterFunc(job.Timeout, func() {
			timedOut.Store(proc.Kill() == nil)
		})
		defer timer.Stop()
	}
	copied := make(chan error, 1)
	go func() { copied <- copyOutput(outR, output) }()
	status, err := reapUntil(proc.Pid)
	if err != nil {
		return guest.End{}, err
	}
	if err := outR.SetReadDeadline(time.Now().Add(drainTime)); err != nil {
		return guest.End{}, err
	}
	if err := <-copied; err != nil {
		return guest.End{}, err
	}
	return guest.End{Code: exitCode(status), TimedOut: timedOut.Load(), Duration: time.Since(begin)}, nil
}

func startJob(job guest.Job, stdin, out *os.File) (*os.Process, error) {
	if len(job.Args) == 0 {
		return nil, errors.New("a job without a command")
	}
	program, err := exec.LookPath(job.Args[0])
	if err != nil {
		return nil, err
	}
	return os.StartProcess(program, job.Args, &os.ProcAttr{
		Dir:   job.Dir,
		Env:   append(os.Environ(), job.Env...),
		Files: []*os.File{stdin, out, out},
	})
}

// copyOutput passes output on until its end, or until the reader's deadline.
func copyOutput(r *os.File, output func([]byte) error) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if err := output(buf[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

// reapUntil waits for pid, and meanwhile reaps every orphan as an init must:
// tests look for processes that should be gone, and a zombie is not gone.
func reapUntil(pid int) (unix.WaitStatus, error) {
	for {
		var status unix.WaitStatus
		got, err := unix.Wait4(-1, &status, 0, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return 0, os.NewSyscallError("wait4", err)
		}
		if got == pid {
			return status, nil
		}
	}
}

func exitCode(status unix.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}
