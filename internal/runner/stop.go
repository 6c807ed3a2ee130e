package runner

import (
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/runner/proc"
	"github.com/sandkasten/sandkasten/internal/runner/shellproc"
)

const (
	// reportTime is for the shell when all of a stopped command's processes are gone.
	reportTime = 500 * time.Millisecond
	// reportPatience is the same on a host that does not give the shell a processor.
	reportPatience = 10 * time.Second
)

// stop ends the exec's processes: TERM, the grace of the request, KILL. The
// shell stands still meanwhile and then skips what is left of the command. If
// it cannot, or does not come out of it, it is killed as well. Whatever earlier execs
// left in the background is not touched. While the sandbox stands still nothing
// of that is done: it takes letting processes go on.
func (s *shell) stop(x *run, how ending) ending {
	s.r.reaper.Go(func() {})
	s.proc.Hush()
	k := s.killing(x.began)
	skip, resume := s.r.dialect.Skip()
	// Stopped first: else it would go on to the next command of a list as soon
	// as the one that it waits for is killed.
	s.proc.Signal(unix.SIGSTOP)
	if skip != 0 {
		s.proc.Signal(skip)
	}
	// A reader that is behind must not hold up what they write at their end. Before they
	// are asked to end it holds them up, or they would write gigabytes on a busy host.
	k.Terminate(unix.SIGTERM, time.Duration(x.e.req.GraceMS)*time.Millisecond, x.e.out.Flood)
	k.Kill()
	// What the shell writes from here on is about what happened to its
	// children, and not the command's.
	x.out.Settle()
	x.out.Direct(nil)
	x.e.input.close() // or the shell's own read would wait for more
	st, ok := shellproc.Report{}, false
	if skip != 0 {
		s.r.reaper.Go(func() { s.proc.Signal(unix.SIGCONT) })
		st, ok = s.awaitSkipped()
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

// awaitSkipped waits for the report of a shell that has been let go on. One that has
// had no processor in reportTime would come out of the command, so it is not given up:
// it would lose its variables and jobs.
func (s *shell) awaitSkipped() (st shellproc.Report, ok bool) {
	pid := s.proc.PID
	before, known := proc.OwnCPU(pid)
	for end := time.Now().Add(reportPatience); ; {
		if st, ok = s.await(reportTime); ok || known != nil || time.Now().After(end) {
			return st, ok
		}
		now, alive := s.r.procs.Read(strconv.Itoa(pid))
		used, err := proc.OwnCPU(pid)
		if !alive || !now.Alive || !now.Runnable || err != nil || used-before >= reportTime {
			return st, false
		}
	}
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
