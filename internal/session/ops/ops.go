// Package ops does what clients do in sessions: it runs commands, programs and
// terminals, and works on files. It checks requests, asks the session's runner, and
// says what its answers mean. Which sessions there are, who may use them, their states
// and what counts as their use are the core's.
package ops

import (
	"context"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/session/execwatch"
	"github.com/sandkasten/sandkasten/protocol"
)

// Sessions finds the sessions to work in.
type Sessions interface {
	// Living returns a session that has not ended and that p may use.
	Living(ctx context.Context, p auth.Principal, id string) (Session, error)
}

// Session is what operations ask of a session. It may stop running, or end, at any
// moment: each method looks again. One that is not running gives Conflict.
type Session interface {
	// Now returns what the session is like.
	Now() execwatch.Now
	// Reach returns the way to the runner, to look at what runs. That is no activity,
	// and leaves a paused session paused.
	Reach(ctx context.Context) (*runnerclient.Client, error)
	// Begin begins an operation, which wakes a paused session. The session is in use
	// until end is called, which the caller must.
	Begin(ctx context.Context) (runner *runnerclient.Client, end func(), err error)
	// Lost returns what the failure of an operation means. It first ends a session
	// whose runner has died or is not to be trusted.
	Lost(ctx context.Context, err error) error
	// Moved records where the default shell is now; "" is nowhere else.
	Moved(cwd string)
}

// Options bounds operations. Every field is required.
type Options struct {
	ExecTimeout    time.Duration // of a command that asks for none
	MaxExecTimeout time.Duration
	KillGrace      time.Duration // between TERM and KILL for what is out of time
	TerminalDetach time.Duration // that a terminal lives on without a client; 0 hangs up at once
	OutputBytes    int64         // of an exec's output that can be read again
	FileBytes      int64         // of one file or archive that is written

	OfDoor func(session string, one protocol.Port) bool // reports that the session's network listens there, and no program

	Watch *execwatch.Watch // tells subscribers of execs; the caller closes it
}

// Execs is what runs in sessions: commands of their shells, programs, terminals
// and the servers among them. What is beyond a limit is refused with
// InvalidArgument or TooLarge before the sandbox hears of it.
type Execs struct {
	sessions Sessions
	watch    *execwatch.Watch
	opts     Options
}

// Files works on the files of sessions. Requests are those of the protocol. Their
// paths are as a client wrote them: absolute, or from the workspace. AllowOutside
// is set here. What is beyond a limit is refused with InvalidArgument or TooLarge
// before the sandbox hears of it.
type Files struct {
	sessions Sessions
	maxBytes int64
	slots    fileSlots
}

// New returns both services over the sessions of the core.
func New(sessions Sessions, o Options) (*Execs, *Files) {
	return &Execs{sessions: sessions, watch: o.Watch, opts: o}, &Files{sessions: sessions, maxBytes: o.FileBytes}
}

// look finds a session and the way to its runner, to ask after what runs there.
func (x *Execs) look(ctx context.Context, p auth.Principal, id string) (Session, *runnerclient.Client, error) {
	s, err := x.sessions.Living(ctx, p, id)
	if err != nil {
		return nil, nil, err
	}
	runner, err := s.Reach(ctx)
	return s, runner, err
}
