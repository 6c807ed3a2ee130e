package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// starter starts a command.
type starter func(cmd *exec.Cmd) error

func startHere(cmd *exec.Cmd) error { return cmd.Start() }

// hybridTree is where a hybrid host mounts cgroup v2 beside v1.
const hybridTree = "/sys/fs/cgroup/unified"

// startWithoutV2 returns a starter whose commands do not see a hybrid host's
// v2 tree, because crun 1.8 refuses hosts with both. They share one private
// mount namespace, made once, so that it costs a start nothing. The thread
// that has it lives until stop.
func startWithoutV2() (start starter, stop func(), err error) {
	if _, err := os.Stat(hybridTree); err != nil {
		return startHere, func() {}, nil
	}
	type request struct {
		cmd  *exec.Cmd
		done chan error
	}
	requests := make(chan request)
	ready := make(chan error)
	go func() {
		// Never unlocked: a thread in another namespace must end here.
		runtime.LockOSThread()
		err := leaveHybridTree()
		ready <- err
		if err != nil {
			return
		}
		for r := range requests {
			r.done <- r.cmd.Start()
		}
	}()
	if err := <-ready; err != nil {
		return nil, nil, err
	}
	start = func(cmd *exec.Cmd) error {
		done := make(chan error)
		requests <- request{cmd, done}
		return <-done
	}
	return start, func() { close(requests) }, nil
}

func leaveHybridTree() error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return os.NewSyscallError("mount", err)
	}
	if err := unix.Unmount(hybridTree, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", hybridTree, err)
	}
	return nil
}
