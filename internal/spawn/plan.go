package spawn

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// op is a Step as the assembly reads it: 80 bytes, all words.
type op struct {
	nr    uintptr
	args  [6]uintptr
	flags uintptr
	save  *uintptr
	want  uintptr
}

const (
	flagMayFail = 1
	flagHasWant = 2
)

// outcome is written by the child when a step fails.
type outcome struct {
	failed int // index of the step, -1 while none has
	errno  int // negative, as the kernel returned it
}

// cloneArgs is struct clone_args of clone3(2), version 2.
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal   uint64
	stack, stackSize, tls, setTID, setTIDSize, cgrp uint64
}

// plan is everything the child touches. It lives on the heap and is kept
// alive until the child has left the shared memory.
type plan struct {
	args  cloneArgs
	ops   []op
	names []string
	out   *outcome // written by the child
	page  []byte   // that out is in, shared with a child that has a copy of the rest
	done  *[2]int  // a pipe that such a child keeps open until its program starts
	alive uint32   // cleared by the kernel at the child's exec or end
	pidfd int32    // written by clone3
	refs  []any    // memory the ops point at
	zero  [32]byte // a struct kernel_sigaction of SIG_DFL, and an empty signal set
}

// step positions are known before the ops' final addresses are, so links are
// resolved when all are there.
type link struct{ from, to, arg int }

// compile lays the whole life of the child before its program out as ops.
func compile(c *Cmd) (*plan, error) {
	pl := &plan{out: &outcome{failed: -1}}
	var links []link
	add := func(list []Step) {
		base := len(pl.ops)
		for i, s := range list {
			for _, a := range s.Save {
				links = append(links, link{base + i, base + a.Step, a.Arg})
			}
			pl.append(s)
		}
	}
	add(pl.resetSignals())
	add(c.Steps)
	if c.Dir != "" {
		add([]Step{Chdir(c.Dir)})
	}
	add(placeFiles(c.Files))
	add(c.Final)
	last, err := execStep(c)
	if err != nil {
		return nil, err
	}
	add([]Step{last})
	for _, l := range links {
		pl.ops[l.from].save = &pl.ops[l.to].args[l.arg]
	}

	atomic.StoreUint32(&pl.alive, 1)
	pl.args = cloneArgs{
		flags:      unix.CLONE_PIDFD | c.CloneFlags,
		pidfd:      uint64(uintptr(unsafe.Pointer(&pl.pidfd))),
		childTID:   uint64(uintptr(unsafe.Pointer(&pl.alive))),
		exitSignal: uint64(unix.SIGCHLD),
	}
	if c.Memory == Copied {
		if err := pl.copied(); err != nil {
			return nil, err
		}
	} else {
		pl.args.flags |= unix.CLONE_VM | unix.CLONE_CHILD_CLEARTID
	}
	if c.CgroupFD > 0 {
		pl.args.flags |= unix.CLONE_INTO_CGROUP
		pl.args.cgrp = uint64(c.CgroupFD)
	}
	return pl, nil
}

// copied sets up how a child that shares no memory tells how it went.
func (pl *plan) copied() error {
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	pl.page, pl.out = page, (*outcome)(unsafe.Pointer(&page[0]))
	pl.out.failed = -1
	pl.done = new([2]int)
	if err := unix.Pipe2(pl.done[:], unix.O_CLOEXEC); err != nil {
		pl.done = nil
		return errors.Join(os.NewSyscallError("pipe2", err), pl.free())
	}
	return nil
}

// free gives back what copied took.
func (pl *plan) free() error {
	var errs []error
	if pl.done != nil {
		errs = append(errs, unix.Close(pl.done[0]))
	}
	if pl.page != nil {
		errs = append(errs, unix.Munmap(pl.page))
	}
	pl.done, pl.page, pl.out = nil, nil, nil
	return errors.Join(errs...)
}

func (pl *plan) append(s Step) {
	o := op{nr: s.Nr, args: s.Args, want: uintptr(s.Want)}
	if s.MayFail {
		o.flags |= flagMayFail
	}
	if s.HasWant {
		o.flags |= flagHasWant
	}
	pl.ops = append(pl.ops, o)
	pl.names = append(pl.names, s.Name)
	pl.refs = append(pl.refs, s.keep...)
}

// resetSignals gives the child the default action for every signal, also for
// those that the parent ignores: a shell cannot trap a signal that was ignored
// when it started. Only then may signals be delivered.
func (pl *plan) resetSignals() []Step {
	zero := uintptr(unsafe.Pointer(&pl.zero))
	var steps []Step
	for sig := 1; sig <= 64; sig++ {
		if sig == int(unix.SIGKILL) || sig == int(unix.SIGSTOP) {
			continue
		}
		steps = append(steps, Step{Name: "rt_sigaction", Nr: unix.SYS_RT_SIGACTION, Args: [6]uintptr{uintptr(sig), zero, 0, 8}})
	}
	return append(steps, Step{Name: "rt_sigprocmask", Nr: unix.SYS_RT_SIGPROCMASK, Args: [6]uintptr{unix.SIG_SETMASK, zero, 0, 8}})
}

// placeFiles moves descriptors to their numbers. A source may be another
// one's destination, so all are first copied above the highest.
func placeFiles(files map[int]int) []Step {
	targets := make([]int, 0, len(files))
	for t := range files {
		targets = append(targets, t)
	}
	slices.Sort(targets)
	steps := []Step{{Name: "close_range", Nr: unix.SYS_CLOSE_RANGE, Args: [6]uintptr{0, uintptr(^uint32(0)), unix.CLOSE_RANGE_CLOEXEC}}}
	if len(targets) == 0 {
		return steps
	}
	above := uintptr(targets[len(targets)-1] + 1)
	for i, t := range targets {
		steps = append(steps, Step{
			Name: fmt.Sprintf("copy descriptor for %d", t), Nr: unix.SYS_FCNTL,
			Args: [6]uintptr{uintptr(files[t]), unix.F_DUPFD_CLOEXEC, above},
			Save: []Arg{{Step: 1 + len(targets) + i, Arg: 0}},
		})
	}
	for _, t := range targets {
		steps = append(steps, Step{Name: fmt.Sprintf("place descriptor %d", t), Nr: unix.SYS_DUP3, Args: [6]uintptr{0, uintptr(t), 0}})
	}
	return steps
}

// execStep is the end of the list: it succeeds by not returning.
func execStep(c *Cmd) (Step, error) {
	argv, err := pointers(c.Args)
	if err != nil {
		return Step{}, fmt.Errorf("arguments: %w", err)
	}
	envv, err := pointers(c.Env)
	if err != nil {
		return Step{}, fmt.Errorf("environment: %w", err)
	}
	path, err := unix.BytePtrFromString(c.Path)
	if err != nil {
		return Step{}, fmt.Errorf("path: %w", err)
	}
	args := [6]uintptr{uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&envv[0]))}
	if c.ExecFD <= 0 {
		return Step{Name: "execve " + c.Path, Nr: unix.SYS_EXECVE, Args: args}.Keep(path, argv, envv), nil
	}
	empty := new(byte)
	return Step{
		Name: "execveat", Nr: unix.SYS_EXECVEAT,
		Args: [6]uintptr{uintptr(c.ExecFD), uintptr(unsafe.Pointer(empty)), args[1], args[2], unix.AT_EMPTY_PATH},
	}.Keep(empty, argv, envv), nil
}

// pointers makes a C array of strings, ended by nil.
func pointers(list []string) ([]*byte, error) {
	out := make([]*byte, len(list)+1)
	for i, s := range list {
		p, err := unix.BytePtrFromString(s)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", s, err)
		}
		out[i] = p
	}
	return out, nil
}
