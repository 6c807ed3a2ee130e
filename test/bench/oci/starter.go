package oci

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// Starter starts a command.
type Starter func(cmd *exec.Cmd) error

// StartHere starts it where we are.
func StartHere(cmd *exec.Cmd) error { return cmd.Start() }

// HybridTree is where a hybrid host mounts cgroup v2 beside v1.
const HybridTree = "/sys/fs/cgroup/unified"

// StartWithoutV2 returns a starter whose commands do not see a hybrid host's
// v2 tree, because crun 1.8 refuses hosts with both. They share one private
// mount namespace, made once, so that it costs a start nothing. The thread
// that has it lives until stop.
func StartWithoutV2() (start Starter, stop func(), err error) {
	if _, err := os.Stat(HybridTree); err != nil {
		return StartHere, func() {}, nil
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
	if err := unix.Unmount(HybridTree, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", HybridTree, err)
	}
	return nil
}
