package runner

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/runner/proc"
	"github.com/sandkasten/sandkasten/internal/runner/shellproc"
)

// reportTime is for the shell when all of a stopped command's processes are gone.
const reportTime = 500 * time.Millisecond

// stop ends the exec's processes: TERM, the grace of the request, KILL. The
// shell stands still meanwhile and then skips what is left of the command. If
// it cannot, or does not come out of it, it is killed as well. Whatever earlier execs
// left in the background is not touched. While the sandbox stands still nothing
// of that is done: it takes letting processes go on.
func (s *shell) stop(x *run, how ending) ending {
	s.r.reaper.Go(func() {})
	s.proc.Hush()
	x.e.out.Flood() // a reader that is behind must not hold up the end
	k := s.killing(x.began)
	skip, resume := s.r.dialect.Skip()
	// Stopped first: else it would go on to the next command of a list as soon
	// as the one that it waits for is killed.
	s.proc.Signal(unix.SIGSTOP)
	if skip != 0 {
		s.proc.Signal(skip)
	}
	k.Terminate(unix.SIGTERM, time.Duration(x.e.req.GraceMS)*time.Millisecond)
	k.Kill()
	// What the shell writes from here on is about what happened to its
	// children, and not the command's.
	x.out.Settle()
	x.out.Direct(nil)
	x.e.input.close() // or the shell's own read would wait for more
	st, ok := shellproc.Report{}, false
	if skip != 0 {
		s.r.reaper.Go(func() { s.proc.Signal(unix.SIGCONT) })
		st, ok = s.await(reportTime)
	}
	if !ok || s.proc.Send(resume) != nil {
		// Nothing can be started between the last look and the end.
		s.proc.Signal(unix.SIGSTOP)
		k.Kill()
		s.proc.Kill()
		k.Kill()
		return how
	}
	k.Kill() // what it started before it was told to skip
	how.cwd = st.Cwd
	s.last = how.code
	return how
}

// killing finds the processes of an exec that began then.
func (s *shell) killing(began proc.Moment) proc.Killing {
	p := s.proc
	return proc.Killing{Table: s.r.procs, Init: s.r.opts.Init, Members: func() []proc.Process { return s.r.tree(p, began) }}
}

// tree returns the processes of the exec: those that the shell started since
// its beginning, with their descendants. A dead shell's have been handed to
// PID 1, where those of no living shell are taken for its own.
func (r *Runner) tree(p *shellproc.Proc, began proc.Moment) []proc.Process {
	list, err := r.procs.List()
	if err != nil {
		return nil
	}
	mine := func(pr proc.Process) bool {
		return pr.After(began) && !r.reaper.Owns(pr.PID) && !(protection.Off(protection.KillTree) && pr.Session != p.PID)
	}
	f := proc.NewFamily(list)
	f.Descend(p.PID, mine)
	if r.opts.Init && (p.Dead() || !r.dialect.Adopts()) {
		f.Descend(os.Getpid(), mine)
	}
	return f.Members()
}
