package runner

import (
	"errors"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/child"
	"github.com/sandkasten/sandkasten/internal/runner/fds"
	"github.com/sandkasten/sandkasten/internal/runner/lookup"
	"github.com/sandkasten/sandkasten/internal/runner/output"
	"github.com/sandkasten/sandkasten/internal/runner/pipe"
	"github.com/sandkasten/sandkasten/internal/runner/proc"
	"github.com/sandkasten/sandkasten/protocol"
)

// Group holds all that a program starts, whatever that does to get away: a
// cgroup. PIDs are those that the runner sees.
type Group interface {
	// FD is the cgroup's directory, to clone into. It is valid until Close.
	FD() int
	// Kill sends SIGKILL to all in it.
	Kill() error
	// PIDs returns the processes in it.
	PIDs() ([]int, error)
	// CPUUsec is the time that all in it have taken, in microseconds.
	CPUUsec() int64
	// Close gives the group back. Processes that are still in it are left alone.
	// It is the last call.
	Close() error
}

// Times of a program.
const (
	hangupTime = 2 * time.Second        // between a terminal's hangup and KILL
	screenTime = 100 * time.Millisecond // for a terminal's last output, if somebody else has it open
)

// program is one that runs without a shell, on pipes or a terminal. Its loop
// takes it to its end.
type program struct {
	r     *Runner
	e     *exec
	start protocol.Start
	cwd   string
	user  *lookup.User // nil is the sandbox's own
	child *child.Child
	began proc.Moment
	oom   int64          // kills before it began
	lock  sync.Mutex     // of the pipes
	pipes []*pipe.Output // stdout and stderr, or the terminal
	stdin *pipe.Input    // nil if it is not open

	groups sync.Mutex
	group  Group // guarded by groups; nil where there is none, or not any more
}

// newProgram returns the exec of a program.
func newProgram(req protocol.Start, argv []string, b *output.Budget) *exec {
	kind := output.Apart
	switch {
	case req.TTY:
		kind = output.Screen
	case req.Merge:
		kind = output.Combined
	}
	e := queued(protocol.Exec{
		ID: req.ID, TimeoutMS: req.TimeoutMS, GraceMS: req.GraceMS, OutputLimit: req.OutputLimit,
		OutputFile: req.OutputFile, AllowOutside: req.AllowOutside, Accept: req.Accept,
	}, output.New(b, kind, req.OutputLimit))
	e.launched = make(chan struct{})
	shown := strings.Join(argv, " ")
	e.rec.Kind, e.rec.TTY, e.rec.Command = protocol.KindProcess, req.TTY, shown[:min(len(shown), shownCommand)]
	return e
}

// live takes the program to its end.
func (p *program) live() {
	p.attempt(func() {
		how := p.watch()
		p.drain()
		p.finish(how)
	})
}

// attempt does a part of the program's life. Nothing that goes wrong there may
// end the process, which would be the end of the sandbox.
func (p *program) attempt(do func()) {
	defer func() {
		if d := recover(); d != nil {
			p.e.abort(protocol.Refuse(protocol.CodeInternal, "the runner has a defect: %v", d))
		}
	}()
	do()
}

// brief follows a program that has just been started for as long as short ones
// take, and reports whether that was all of its life. Like an exec of a shell
// it passes through no other goroutine and wakes up no other thread. theirs are
// the program's ends of its pipes: until its end they keep these from hanging up.
func (p *program) brief(theirs *fds.Set) (over bool) {
	over = true
	p.attempt(func() {
		if over = p.endsSoon(); over {
			theirs.Close()
			p.finish(p.exited())
		}
	})
	return over
}

// endsSoon waits for the end of the program, but not for long, and reports
// whether it came, and all output with it. Output waits for it a moment only.
func (p *program) endsSoon() bool {
	polled := []unix.PollFd{{Fd: int32(p.child.PidFD), Events: unix.POLLIN}}
	for _, out := range p.pipes {
		polled = append(polled, unix.PollFd{Fd: int32(out.FD()), Events: unix.POLLIN})
	}
	until := time.Now().Add(untilNext(briefTime, p.e.deadline()))
	for {
		left := unix.NsecToTimespec(int64(max(0, time.Until(until))))
		n, err := unix.Ppoll(polled, &left, nil)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil || n == 0:
			return false
		}
		ended := polled[0].Revents != 0
		if ended {
			p.r.reaper.Reap()
		}
		for _, out := range p.pipes {
			if out.Settle() == pipe.Full {
				return false // its reader is who runs this
			}
		}
		if ended {
			return p.child.Dead() // as long as nobody traces it
		}
		if soon := time.Now().Add(p.e.company()); soon.Before(until) {
			until = soon
		}
	}
}

// finish gives back what the program held, whose output has been taken, and
// says how it ended.
func (p *program) finish(how ending) {
	how.cwd, how.usage, how.full = p.cwd, p.usage(nil), p.r.full(how.code)
	p.e.runs(nil)
	p.close()
	p.e.end(how)
	p.r.records.ended()
}

// watch waits for the end, or brings it about.
func (p *program) watch() ending {
	timeout := alarm(p.e.deadline())
	defer timeout.Stop()
	alone := time.NewTimer(p.patience())
	defer alone.Stop()
	for {
		select {
		case <-p.child.Exited():
			return p.exited()
		case <-p.e.stop:
			return p.kill(ending{cause: protocol.CauseCanceled, code: codeCanceled})
		case <-p.r.closing:
			p.e.req.GraceMS = 0
			return p.kill(ending{cause: protocol.CauseCanceled, code: codeCanceled})
		case <-timeout.C:
			return p.kill(ending{cause: protocol.CauseTimeout, code: codeTimeout})
		case <-p.e.out.Crowd:
			alone.Reset(p.patience())
		case <-alone.C:
			if !p.e.out.Watched() {
				return p.hangUp()
			}
		}
	}
}

// never is longer than any sandbox lives.
const never = 1 << 62

// alarm fires at a time, which may be the zero time: never.
func alarm(at time.Time) *time.Timer {
	if at.IsZero() {
		return time.NewTimer(never)
	}
	return time.NewTimer(time.Until(at))
}

// patience is how long the program goes on with those that are attached now.
func (p *program) patience() time.Duration {
	if !p.start.TTY || p.start.HangupMS == 0 || p.e.out.Watched() {
		return never
	}
	return time.Duration(p.start.HangupMS) * time.Millisecond
}

// exited is the end by itself.
func (p *program) exited() ending {
	how := ending{cause: protocol.CauseExited, code: p.child.Code()}
	if p.child.Status().Signaled() {
		how.cause = protocol.CauseSignaled
	}
	if how.code == 128+int(unix.SIGKILL) && p.r.oomKills() > p.oom {
		how.cause = protocol.CauseOOMKilled
	}
	return how
}

// kill ends the program and everything that it started: TERM, or on a terminal
// a hangup, some time to follow it, KILL. While the sandbox stands still nothing
// of that is done.
func (p *program) kill(how ending) ending {
	p.r.reaper.Go(func() {})
	grace, ask := time.Duration(p.e.req.GraceMS)*time.Millisecond, unix.SIGTERM
	if p.start.TTY {
		ask = unix.SIGHUP
	}
	k := p.killing()
	k.Terminate(ask, grace, p.e.out.Flood)
	if !p.inGroup(func(Group) {}) {
		// Stopped, it cannot start anything and adopts what the others orphan.
		p.child.Signal(unix.SIGSTOP)
		k.Others(p.child.PID).Kill()
	}
	k.Kill()
	p.child.AwaitDeath()
	k.Kill() // what its end has orphaned
	return how
}

// hangUp ends a terminal that nobody is attached to, as pulling the plug did:
// what ignores a hangup goes on, but for the program itself.
func (p *program) hangUp() ending {
	p.e.out.Flood()
	p.r.reaper.Go(func() {
		p.child.Signal(unix.SIGHUP)
		p.child.Signal(unix.SIGCONT)
	})
	if !p.child.Await(hangupTime) {
		p.child.Signal(unix.SIGKILL)
		p.child.AwaitDeath()
	}
	return ending{cause: protocol.CauseCanceled, code: codeCanceled}
}

// killing finds the program and all that it started. What it has once found it
// finds again, also when it has been orphaned meanwhile.
func (p *program) killing() proc.Killing {
	known := make(map[int]uint64)
	k := proc.Killing{Table: p.r.procs, Init: p.r.opts.Init, Members: func() []proc.Process {
		all := p.members(nil, func(pr proc.Process) bool { return known[pr.PID] == pr.Start })
		for _, pr := range all {
			known[pr.PID] = pr.Start
		}
		return all
	}}
	k.Strike = func() error {
		err := errNoGroup
		p.inGroup(func(g Group) { err = g.Kill() })
		return err
	}
	return k
}

var errNoGroup = errors.New("the program has no group")

// inGroup calls use with the program's group, and reports whether it has one.
func (p *program) inGroup(use func(Group)) bool {
	p.groups.Lock()
	defer p.groups.Unlock()
	if p.group == nil {
		return false
	}
	use(p.group)
	return true
}

// leaveGroup gives the group back. What is left of it goes with the sandbox.
func (p *program) leaveGroup() {
	p.groups.Lock()
	defer p.groups.Unlock()
	g := p.group
	p.group = nil
	if g != nil && g.Close() != nil {
		return
	}
}

// members returns the living processes of the program, from list if that is
// there. Without a group they are its descendants, which it adopts when they
// are orphaned, those that are in the session that it leads, and those that
// known tells.
func (p *program) members(list []proc.Process, known func(proc.Process) bool) []proc.Process {
	var pids []int
	err := errNoGroup
	p.inGroup(func(g Group) { pids, err = g.PIDs() })
	if err == nil {
		return p.r.procs.Pick(pids)
	}
	if list == nil {
		if list, err = p.r.procs.List(); err != nil {
			return nil
		}
	}
	root := !p.child.Dead()
	f := proc.NewFamily(list)
	f.Add(func(pr proc.Process) bool {
		return root && pr.PID == p.child.PID || pr.Session == p.child.PID && pr.After(p.began) || known(pr)
	})
	return f.Members()
}

// usage is what the program and all that it started take, or took.
func (p *program) usage(list []proc.Process) *protocol.Usage {
	var u protocol.Usage
	if p.child.Dead() {
		r := p.child.Usage()
		u.CPUUS = (r.Utime.Nano() + r.Stime.Nano()) / 1000
		u.MemoryBytes = r.Maxrss << 10
	} else {
		for _, pr := range p.members(list, func(proc.Process) bool { return false }) {
			u.CPUUS += pr.CPU.Microseconds()
			u.MemoryBytes += pr.Memory
			u.Processes++
		}
	}
	p.inGroup(func(g Group) { u.CPUUS = max(u.CPUUS, g.CPUUsec()) })
	return &u
}

// drain takes the rest of the output: what was written before the end. What
// the program left behind may have the pipes open and write to them for ever.
func (p *program) drain() {
	stop, closing := p.e.stop, p.r.closing
	screen := time.Now().Add(screenTime)
	for _, out := range p.pipes {
		for rest := out.Rest(); !p.drained(out, rest, screen); {
			select {
			case <-time.After(backlogTime): // a reader is behind, or the terminal has more
			case <-stop:
				p.e.out.Flood()
				stop = nil
			case <-closing:
				p.e.out.Flood()
				closing = nil
			}
		}
	}
}

// drained takes what a pipe has, and reports whether that was the rest: up to
// a position, or of a terminal, which tells none, what comes until some time.
func (p *program) drained(out *pipe.Output, rest int64, until time.Time) bool {
	switch out.Settle() {
	case pipe.End, pipe.Closed:
		return true
	case pipe.Empty:
		return !p.start.TTY || !time.Now().Before(until)
	default:
		return !p.start.TTY && out.Reached(rest)
	}
}

// close gives back what the program held. What it has left behind may still
// write to its pipes.
func (p *program) close() {
	p.closeStdin()
	for _, out := range p.pipes {
		p.r.loosen(out, p.start.TTY)
	}
	p.child.Release()
	p.leaveGroup()
	p.r.giveProgram(p.start.TTY)
}

// closeStdin closes a pipe. A terminal's stdin is closed with its output.
func (p *program) closeStdin() {
	if p.stdin != nil && !p.start.TTY {
		p.stdin.Close()
	}
}
