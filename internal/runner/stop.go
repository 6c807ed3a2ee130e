package runner

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/proc"
)

// reportTime is for the shell when all of a stopped command's processes are gone.
const reportTime = 100 * time.Millisecond

// stop ends the exec's processes: TERM, the grace of the request, KILL. The
// shell stands still meanwhile and then skips what is left of the command. If
// it cannot, or does not come out of it, it is killed as well. Whatever earlier execs
// left in the background is not touched.
func (s *shell) stop(x *run, how ending) ending {
	s.proc.hush()
	x.e.out.Flood() // a reader that is behind must not hold up the end
	k := s.killing(x.began)
	skip, resume := s.proc.dialect.skip()
	// Stopped first: else it would go on to the next command of a list as soon
	// as the one that it waits for is killed.
	s.proc.signal(unix.SIGSTOP)
	if skip != 0 {
		s.proc.signal(skip)
	}
	k.terminate(unix.SIGTERM, time.Duration(x.e.req.GraceMS)*time.Millisecond)
	k.kill()
	// What the shell writes from here on is about what happened to its
	// children, and not the command's.
	x.out.settle()
	x.out.direct(nil)
	st, ok := status{}, false
	if skip != 0 {
		s.proc.signal(unix.SIGCONT)
		st, ok = s.await(reportTime)
	}
	if !ok || s.proc.send(resume) != nil {
		// Nothing can be started between the last look and the end.
		s.proc.signal(unix.SIGSTOP)
		k.kill()
		s.proc.kill()
		k.kill()
		return how
	}
	k.kill() // what it started before it was told to skip
	how.cwd = st.cwd
	s.last = how.code
	return how
}

// killing finds the processes of an exec that began then.
func (s *shell) killing(began proc.Moment) killing {
	p := s.proc
	return killing{r: s.r, members: func() []proc.Process { return p.tree(s.r, began) }}
}

// tree returns the processes of the exec: those that the shell started since
// its beginning, with their descendants. A dead shell's have been handed to
// PID 1, where those of no living shell are taken for its own.
func (p *shellProc) tree(r *Runner, began proc.Moment) []proc.Process {
	list, err := r.procs.List()
	if err != nil {
		return nil
	}
	mine := func(pr proc.Process) bool { return pr.After(began) && !r.reaper.owns(pr.PID) }
	f := proc.NewFamily(list)
	f.Descend(p.pid, mine)
	if r.opts.Init && (p.dead() || !p.dialect.adopts()) {
		f.Descend(os.Getpid(), mine)
	}
	return f.Members()
}
