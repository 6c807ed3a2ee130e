package runner

import (
	"time"

	"github.com/sandkasten/sandkasten/internal/guard"
	"github.com/sandkasten/sandkasten/internal/runner/shellproc"
	"github.com/sandkasten/sandkasten/protocol"
)

// Exit codes of execs that the runner ended, whatever the shell made of it. A
// client that looks at the code alone must not take them for a success.
const (
	codeTimeout  = 124 // as timeout(1) has it
	codeCanceled = 130 // as after Ctrl-C
)

// codeSyntax is what a shell has after a text that is no command. Some of those
// leave bash in the middle of their grammar, as "[[ 1" does, or damage it, so
// that it loses the next command or crashes at it.
const codeSyntax = 2

// Times of looking at a shell that has not reported.
const (
	firstCheck = 20 * time.Millisecond
	nextChecks = 250 * time.Millisecond
)

// watch waits for the end of the exec that was just ordered. The shell may
// have ended with it. An ending without a cause means that the shell could
// not run the command at all.
func (s *shell) watch(x *run) ending {
	if x.hasPending {
		return s.reported(x.pending)
	}
	s.drain(x, x.out)
	defer s.listen(x.e)()
	deadline := x.e.deadline()
	check, idle := firstCheck, false
	for {
		st, what := s.proc.Wait(untilNext(check, deadline), nil)
		switch {
		case what == shellproc.Reported && !s.mine(x, st):
		case what == shellproc.Reported && !st.Ran:
			return ending{}
		case what == shellproc.Reported:
			return s.reported(st)
		case what == shellproc.Exited:
			return s.lost(x)
		case what == shellproc.Rung:
			if s.isClosing() {
				x.e.req.GraceMS = 0
			}
			return s.stop(x, ending{cause: protocol.CauseCanceled, code: codeCanceled})
		case !deadline.IsZero() && !time.Now().Before(deadline):
			return s.stop(x, ending{cause: protocol.CauseTimeout, code: codeTimeout})
		default:
			check = nextChecks
			s.drainOwn(x)
			if s.silent() {
				if idle {
					return s.lost(x)
				}
				idle, check = true, firstCheck
			}
		}
	}
}

// listen rings the shell's bell when e is to end, until the function that it
// returns is called.
func (s *shell) listen(e *exec) (end func()) {
	p, over, done := s.proc, make(chan struct{}), make(chan struct{})
	guard.Go(func() {
		defer close(done)
		select {
		case <-e.stop:
			p.Ring()
		case <-s.closing:
			p.Ring()
		case <-over:
		}
	}, e.fault)
	return func() {
		close(over)
		<-done
		p.Hush()
	}
}

// untilNext is the time to the next look at the shell.
func untilNext(check time.Duration, deadline time.Time) time.Duration {
	if deadline.IsZero() {
		return check
	}
	return max(0, min(check, time.Until(deadline)))
}

// silent reports whether the shell will not report any more: it has read all
// of its script, of which the end comes behind the report, or what it reported
// makes no sense. set -n does that, and a function named builtin.
func (s *shell) silent() bool {
	return s.proc.Garbled || s.r.dialect.Idles() && s.proc.Unread() == 0
}

// mine reports whether st is about the last order. A shell that could not even
// read that has no number for it; nor has one that tells that it begins.
func (s *shell) mine(x *run, st shellproc.Report) bool {
	if st.Seq == 0 && st.Ran {
		x.begun = true
		return false
	}
	return st.Seq == s.seq || st.Seq == 0
}

// reported is the end that the shell told.
func (s *shell) reported(st shellproc.Report) ending {
	s.last = st.Code
	how := ending{cause: protocol.CauseExited, code: st.Code, cwd: st.Cwd}
	if signalOf(st.Code) > 0 {
		how.cause = protocol.CauseSignaled
	}
	return how
}

// lost is the end of the shell itself.
func (s *shell) lost(x *run) ending {
	s.proc.Kill()
	// A line is followed by an empty one. If the shell did not come to the end
	// of the first, it was on its way out before it saw the command.
	// Nonsense on the status pipe, however, is a command's.
	if !s.proc.Garbled && s.r.dialect.Idles() && s.proc.Unread() > 1 {
		return ending{}
	}
	if x.asked && !x.begun {
		return ending{}
	}
	return ending{cause: protocol.CauseShellExited, code: s.proc.Code()}
}
