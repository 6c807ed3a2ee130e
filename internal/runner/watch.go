package runner

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/proc"
	"github.com/sandkasten/sandkasten/protocol"
)

// Exit codes of execs that the runner ended, whatever the shell made of it. A
// client that looks at the code alone must not take them for a success.
const (
	codeTimeout  = 124 // as timeout(1) has it
	codeCanceled = 130 // as after Ctrl-C
)

// watch waits for the end of the exec that was just ordered. The shell may
// have ended with it. An ending without a cause means that the shell could
// not run the command at all.
func (s *shell) watch(e *exec, began proc.Moment) ending {
	deadline := e.deadline()
	statuses := s.proc.statuses
	check, idle := firstCheck, false
	defer s.timer.Stop()
	for {
		s.timer.Reset(untilNext(check, deadline))
		select {
		case st, ok := <-statuses:
			if ok && st.seq == s.seq && !st.ran {
				return ending{}
			}
			if ok && st.seq == s.seq {
				return s.reported(st)
			}
			if !ok {
				// The shell ended or became another program, which is now the
				// command: its exit, or the deadline, is the end.
				statuses = nil
			}
		case <-s.proc.exited:
			return s.lost()
		case <-e.stop:
			return s.stop(e, began, ending{cause: protocol.CauseCanceled, code: codeCanceled})
		case <-s.closing:
			e.req.GraceMS = 0
			return s.stop(e, began, ending{cause: protocol.CauseCanceled, code: codeCanceled})
		case <-s.timer.C:
			if !deadline.IsZero() && !time.Now().Before(deadline) {
				return s.stop(e, began, ending{cause: protocol.CauseTimeout, code: codeTimeout})
			}
			check = nextChecks
			if s.silent() {
				if idle {
					return s.lost()
				}
				idle, check = true, firstCheck
			}
		}
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
	return s.proc.garbled.Load() || s.proc.dialect.idles() && s.proc.unread() == 0
}

// reported is the end that the shell told.
func (s *shell) reported(st status) ending {
	s.last = st.code
	how := ending{cause: protocol.CauseExited, code: st.code, cwd: string(st.text)}
	if signalOf(st.code) > 0 {
		how.cause = protocol.CauseSignaled
	}
	return how
}

// lost is the end of the shell itself.
func (s *shell) lost() ending {
	s.proc.signal(unix.SIGKILL)
	s.proc.await(deathTime)
	// A line is followed by an empty one. If the shell did not come to the end
	// of the first, it was on its way out before it saw the command.
	if s.proc.dialect.idles() && s.proc.unread() > 1 {
		return ending{}
	}
	return ending{cause: protocol.CauseShellExited, code: s.proc.code()}
}
