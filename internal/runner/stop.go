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
// it does not come out of it, it is killed as well. Whatever earlier execs
// left in the background is not touched.
func (s *shell) stop(e *exec, began proc.Moment, how ending) ending {
	e.out.Flood() // a reader that is behind must not hold up the end
	k := s.killing(began)
	skip, resume := s.proc.dialect.skip()
	// Stopped first: else it would go on to the next command of a list as soon
	// as the one that it waits for is killed.
	s.proc.signal(unix.SIGSTOP)
	if skip != 0 {
		s.proc.signal(skip)
	}
	k.terminate(unix.SIGTERM, time.Duration(e.req.GraceMS)*time.Millisecond)
	k.kill()
	s.proc.signal(unix.SIGCONT)
	st, ok := s.await(reportTime)
	if ok && skip != 0 && s.proc.send(resume) != nil {
		ok = false
	}
	if !ok {
		// Nothing can be started between the last look and the end.
		s.proc.signal(unix.SIGSTOP)
		k.kill()
		s.proc.signal(unix.SIGKILL)
		s.proc.await(deathTime)
		k.kill()
		return how
	}
	k.kill() // what it started before it was told to skip
	how.cwd = string(st.text)
	s.last = how.code
	return how
}

// await waits for the shell's report on the last order for at most d.
func (s *shell) await(d time.Duration) (status, bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case st, ok := <-s.proc.statuses:
			if !ok || st.seq == s.seq {
				return st, ok && st.ran
			}
		case <-s.proc.exited:
			return status{}, false
		case <-timer.C:
			return status{}, false
		}
	}
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
