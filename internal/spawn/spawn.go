// Package spawn starts a process whose first acts are a list of system calls.
//
// os/exec can do a few fixed things between fork and exec. A sandbox needs
// more, in an exact order: join cgroups from inside, take an identity, drop
// capabilities, load a filter. Here that list is data (Step). A few lines of
// assembly make the calls in a child that runs no Go code and so cannot trip
// over the Go runtime. It touches one piece of memory, which has been laid out
// before (image), so that a start copies no page tables whether the child shares
// the parent's memory or not (Memory). What the steps mean belongs to the
// callers; nothing here knows sandboxes.
package spawn

import (
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/guard"
)

// Cmd describes a process to start. Path or ExecFD says what to execute.
type Cmd struct {
	Path   string
	ExecFD int // executed instead of Path when greater than zero
	Args   []string
	Env    []string
	Dir    string // the working directory; empty keeps the parent's

	// Files maps the child's descriptor numbers to the parent's. All other
	// descriptors are closed when the program starts.
	Files map[int]int

	// Steps run first, in order; then the working directory and Files are set;
	// then Final runs, directly before the program starts.
	Steps []Step
	Final []Step

	// Memory is what the child has until its program starts.
	Memory Memory

	CloneFlags uint64    // namespaces: CLONE_NEW*
	CgroupFD   int       // a cgroup v2 directory to start in, when greater than zero
	Identity   *Identity // taken by the calling thread for the clone alone
}

// Memory of a child before its program starts.
type Memory int

// The kinds.
const (
	// Shared is the parent's memory, which costs nothing.
	Shared Memory = iota
	// Copied is memory of its own, for a child that somebody hostile can stop, or
	// have killed for want of memory: the kernel would end all that share it.
	// What it needs is all that it gets, unless the program is built with cgo: the
	// parent's own memory is marked as not to be inherited from then on, also
	// by any other fork.
	Copied
)

// stepsTime is how long a child with copied memory may take to its program.
// Nothing of ours takes long there; one that does has been stopped.
const stepsTime = 5 * time.Second

// Identity is the user and group that the child is cloned as. With
// CLONE_NEWUSER they become the owner of the new user namespace, in which they
// need not be mapped. The parent must be root. Supplementary groups are kept.
type Identity struct{ UID, GID int }

// Step is one system call that the child makes. A failure ends the child and
// is returned by Wait under Name.
type Step struct {
	Name string
	Nr   uintptr
	Args [6]uintptr

	MayFail bool
	Want    int   // with HasWant: any other result is a failure
	HasWant bool  // read of a barrier: 1 byte or the parent is gone
	Save    []Arg // where the result goes: arguments of later steps of the same list

	data []pointer // what Args point at
}

// Arg names an argument of a step, by positions in the step's own list.
type Arg struct{ Step, Arg int }

// point makes an argument the address that d will have for the child.
func (s Step) point(arg int, d *datum) Step {
	s.data = append(s.data, pointer{arg, d})
	return s
}

// Optional lets the step fail without ending the child.
func (s Step) Optional() Step {
	s.MayFail = true
	return s
}

// StepError says which step failed in the child.
type StepError struct {
	Step  string
	Errno unix.Errno
}

func (e *StepError) Error() string { return e.Step + ": " + e.Errno.Error() }

// Unwrap gives the errno to errors.Is.
func (e *StepError) Unwrap() error { return e.Errno }

// Process is a started child. The caller reaps it with wait4 and closes PidFD.
type Process struct {
	PID   int
	PidFD int

	plan *plan
}

// Start clones the child and waits until its program runs.
func Start(c *Cmd) (*Process, error) {
	p, err := c.Clone()
	if err != nil {
		return nil, err
	}
	if err := p.Wait(); err != nil {
		return nil, errors.Join(err, os.NewSyscallError("close", unix.Close(p.PidFD)))
	}
	return p, nil
}

// Clone starts the child and returns while it may still be at its steps, so
// that the caller can meet it at a barrier. Wait must follow.
func (c *Cmd) Clone() (*Process, error) {
	pl, err := compile(c)
	if err != nil {
		return nil, err
	}
	if c.Identity == nil {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		return pl.clone()
	}
	type result struct {
		p   *Process
		err error
	}
	done := make(chan result, 1)
	guard.Go(func() {
		// Not unlocked when the identity cannot be restored: the runtime then
		// ends the thread together with this goroutine.
		runtime.LockOSThread()
		p, err, restored := c.Identity.clone(pl)
		done <- result{p, err}
		if restored {
			runtime.UnlockOSThread()
		}
	}, func(err error) { done <- result{nil, err} })
	r := <-done
	return r.p, r.err
}

// Wait returns when the child's program runs, or with the step that failed.
// After an error the child is dead and has been reaped; PidFD stays the
// caller's to close. Waiting again does nothing.
func (p *Process) Wait() error {
	pl := p.plan
	if pl == nil {
		return nil
	}
	if err := pl.wait(p.PidFD); err != nil {
		return err
	}
	p.plan = nil
	defer runtime.KeepAlive(pl)
	if pl.out.failed < 0 {
		return pl.free()
	}
	failed := &StepError{Step: pl.names[pl.out.failed], Errno: unix.Errno(-pl.out.errno)}
	if err := pl.free(); err != nil {
		return err
	}
	if _, err := reap(p.PID); err != nil {
		return err
	}
	return failed
}

// wait returns when the child has let go of the memory, or of the copy.
func (pl *plan) wait(pidfd int) error {
	if pl.done != nil {
		return pl.waitCopy(pidfd)
	}
	for {
		v := atomic.LoadUint32(&pl.alive)
		if v == 0 {
			return nil
		}
		// The kernel clears the word and wakes its waiters when the child lets
		// go of the shared memory: at exec or at its end.
		_, _, e := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&pl.alive)), futexWait, uintptr(v), 0, 0, 0)
		if e != 0 && e != unix.EAGAIN && e != unix.EINTR {
			return os.NewSyscallError("futex", e)
		}
	}
}

// waitCopy waits for the end of a pipe that closes at exec, or at the end.
func (pl *plan) waitCopy(pidfd int) error {
	deadline := time.Now().Add(stepsTime)
	for {
		fds := []unix.PollFd{{Fd: int32(pl.done[0]), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(max(time.Until(deadline), 0).Milliseconds()))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return os.NewSyscallError("poll", err)
		case n > 0:
			return nil
		default:
			if err := unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0); err != nil {
				return os.NewSyscallError("pidfd_send_signal", err)
			}
			pl.image.lost = true
			pl.out.failed, pl.out.errno = 0, -int(unix.ETIMEDOUT)
			return nil
		}
	}
}

func reap(pid int) (unix.WaitStatus, error) {
	var ws unix.WaitStatus
	for {
		_, err := unix.Wait4(pid, &ws, unix.WALL, nil)
		if err == unix.EINTR {
			continue
		}
		if err == unix.ECHILD { // somebody reaps everything: a PID 1
			return ws, nil
		}
		return ws, os.NewSyscallError("wait4", err)
	}
}

// clone makes the child under the identity and takes the thread's own back.
func (id *Identity) clone(pl *plan) (p *Process, err error, restored bool) {
	// The capabilities must outlive the change of uid: the clone may have to
	// enter a cgroup that only root can write.
	if _, _, e := unix.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_SECUREBITS, secbitNoSetuidFixup, 0, 0, 0, 0); e != 0 {
		return nil, os.NewSyscallError("prctl(PR_SET_SECUREBITS)", e), false
	}
	// The saved ids stay root's for the way back. The child loses them at exec.
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(id.GID), uintptr(id.GID), 0); e != 0 {
		return nil, os.NewSyscallError("setresgid", e), false
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(id.UID), uintptr(id.UID), 0); e != 0 {
		return nil, os.NewSyscallError("setresuid", e), false
	}
	p, err = pl.clone()
	_, _, e1 := unix.RawSyscall(unix.SYS_SETRESUID, 0, 0, 0)
	_, _, e2 := unix.RawSyscall(unix.SYS_SETRESGID, 0, 0, 0)
	_, _, e3 := unix.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_SECUREBITS, 0, 0, 0, 0, 0)
	return p, err, e1 == 0 && e2 == 0 && e3 == 0
}

const (
	futexWait           = 0
	secbitNoSetuidFixup = 1 << 2
)

// clone makes the child. The thread must be locked: its signals are blocked
// while the child is made, so that none is handled on memory that both share.
func (pl *plan) clone() (*Process, error) {
	var all, old uint64 = ^uint64(0), 0
	if _, _, e := unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&old)), 8, 0, 0); e != 0 {
		return nil, os.NewSyscallError("rt_sigprocmask", e)
	}
	pid := cloneAndRun(unsafe.Pointer(&pl.args), unsafe.Sizeof(pl.args), unsafe.Pointer(&pl.ops[0]), uintptr(len(pl.ops)), unsafe.Pointer(pl.out))
	_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&old)), 0, 8, 0, 0)
	runtime.KeepAlive(pl)
	if pl.done != nil {
		if err := unix.Close(pl.done[1]); err != nil {
			return nil, os.NewSyscallError("close", err)
		}
	}
	if pid < 0 {
		return nil, errors.Join(os.NewSyscallError("clone3", unix.Errno(-pid)), pl.free())
	}
	if e != 0 {
		return nil, os.NewSyscallError("rt_sigprocmask", e)
	}
	return &Process{PID: pid, PidFD: int(pl.pidfd), plan: pl}, nil
}

// cloneAndRun calls clone3 and returns its result. In the child it makes the
// calls of ops and never returns. See spawn_amd64.s.
//
//go:noescape
func cloneAndRun(args unsafe.Pointer, size uintptr, ops unsafe.Pointer, n uintptr, out unsafe.Pointer) int
