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
	save  uintptr // an address, or 0
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

// plan is a start that has been laid out. It is kept until the child has left
// the memory that it shares.
type plan struct {
	args  cloneArgs
	image *image   // everything the child touches, with the two below
	ops   []op     // in the image
	out   *outcome // in the image; written by the child
	names []string
	done  *[2]int // a pipe that a child with copied memory keeps open until its program starts
	alive uint32  // cleared by the kernel at the exec or end of one with shared memory
	pidfd int32   // written by clone3
}

// compile lays the whole life of the child before its program out as ops.
func compile(c *Cmd) (*plan, error) {
	last, err := execStep(c)
	if err != nil {
		return nil, err
	}
	lists := [][]Step{resetSignals, c.Steps, nil, placeFiles(c.Files), c.Final, {last}}
	if c.Dir != "" {
		lists[2] = []Step{Chdir(c.Dir)}
	}
	if at := execFD(c); at != c.ExecFD {
		lists[2] = append(lists[2], Step{
			Name: "keep the program's descriptor", Nr: unix.SYS_DUP3, Args: [6]uintptr{uintptr(c.ExecFD), uintptr(at), unix.O_CLOEXEC},
		})
	}
	pl := new(plan)
	if err := pl.layOut(lists, c.Memory); err != nil {
		return nil, err
	}
	atomic.StoreUint32(&pl.alive, 1)
	pl.args = cloneArgs{
		flags:      unix.CLONE_PIDFD | c.CloneFlags,
		pidfd:      uint64(uintptr(unsafe.Pointer(&pl.pidfd))),
		childTID:   uint64(uintptr(unsafe.Pointer(&pl.alive))),
		exitSignal: uint64(unix.SIGCHLD),
	}
	if c.Memory == Copied {
		withhold()
		pl.done = new([2]int)
		if err := unix.Pipe2(pl.done[:], unix.O_CLOEXEC); err != nil {
			pl.done = nil
			return nil, errors.Join(os.NewSyscallError("pipe2", err), pl.free())
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

// layOut makes the image of lists of steps, one after another.
func (pl *plan) layOut(lists [][]Step, memory Memory) (err error) {
	steps := slices.Concat(lists...)
	size := words(int(unsafe.Sizeof(outcome{}))) + len(steps)*int(unsafe.Sizeof(op{}))
	for _, s := range steps {
		for _, p := range s.data {
			size += p.to.size()
		}
	}
	if pl.image, err = newImage(size, memory); err != nil {
		return err
	}
	pl.out = (*outcome)(pl.image.take(int(unsafe.Sizeof(outcome{}))))
	pl.out.failed = -1
	pl.ops = unsafe.Slice((*op)(pl.image.take(len(steps)*int(unsafe.Sizeof(op{})))), len(steps))
	pl.names = make([]string, len(steps))
	for i, s := range steps {
		pl.names[i] = s.Name
		pl.ops[i] = pl.image.op(s)
	}
	base := 0
	for _, list := range lists {
		for i, s := range list {
			for _, a := range s.Save {
				pl.ops[base+i].save = uintptr(unsafe.Pointer(&pl.ops[base+a.Step].args[a.Arg]))
			}
		}
		base += len(list)
	}
	return nil
}

// free gives back what the plan took.
func (pl *plan) free() error {
	var errs []error
	if pl.done != nil {
		errs = append(errs, unix.Close(pl.done[0]))
	}
	errs = append(errs, pl.image.free())
	pl.done, pl.ops, pl.out = nil, nil, nil
	return errors.Join(errs...)
}

// op returns a step as the assembly reads it, with what it points at placed in
// the image.
func (m *image) op(s Step) op {
	o := op{nr: s.Nr, args: s.Args, want: uintptr(s.Want)}
	if s.MayFail {
		o.flags |= flagMayFail
	}
	if s.HasWant {
		o.flags |= flagHasWant
	}
	for _, p := range s.data {
		o.args[p.at] = m.place(p.to)
	}
	return o
}

// resetSignals gives the child the default action for every signal, also for
// those that the parent ignores: a shell cannot trap a signal that was ignored
// when it started. Only then may signals be delivered.
var resetSignals = func() []Step {
	// A struct kernel_sigaction of SIG_DFL, and an empty set of signals.
	zero := &datum{bytes: make([]byte, 32)}
	var steps []Step
	for sig := 1; sig <= 64; sig++ {
		if sig == int(unix.SIGKILL) || sig == int(unix.SIGSTOP) {
			continue
		}
		steps = append(steps, Step{Name: "rt_sigaction", Nr: unix.SYS_RT_SIGACTION, Args: [6]uintptr{uintptr(sig), 0, 0, 8}}.point(1, zero))
	}
	return append(steps, Step{Name: "rt_sigprocmask", Nr: unix.SYS_RT_SIGPROCMASK, Args: [6]uintptr{unix.SIG_SETMASK, 0, 0, 8}}.point(1, zero))
}()

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

// execFD is the program's descriptor when the files are in their places: one
// of them may have the number that it had.
func execFD(c *Cmd) int {
	if _, taken := c.Files[c.ExecFD]; !taken || c.ExecFD <= 0 {
		return c.ExecFD
	}
	highest := c.ExecFD
	for target, source := range c.Files {
		highest = max(highest, target, source)
	}
	return highest + 1
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
	path, err := unix.ByteSliceFromString(c.Path)
	if err != nil {
		return Step{}, fmt.Errorf("path: %w", err)
	}
	if c.ExecFD <= 0 {
		return Step{Name: "execve " + c.Path, Nr: unix.SYS_EXECVE}.point(0, &datum{bytes: path}).point(1, argv).point(2, envv), nil
	}
	return Step{Name: "execveat", Nr: unix.SYS_EXECVEAT, Args: [6]uintptr{uintptr(execFD(c)), 0, 0, 0, unix.AT_EMPTY_PATH}}.
		point(1, cstring("")).point(2, argv).point(3, envv), nil
}

// pointers makes a C array of strings, ended by nil.
func pointers(list []string) (*datum, error) {
	out := &datum{bytes: make([]byte, (len(list)+1)*wordSize)}
	for i, s := range list {
		text, err := unix.ByteSliceFromString(s)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", s, err)
		}
		out.links = append(out.links, pointer{i * wordSize, &datum{bytes: text}})
	}
	return out, nil
}
