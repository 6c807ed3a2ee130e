package session

import (
	"slices"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// State of a session. The strings are part of the API.
type State string

// The states. The last four are ends: nothing leaves them.
const (
	Creating  State = "creating"  // its row exists, its sandbox may not
	Running   State = "running"   // its sandbox answers
	Paused    State = "paused"    // its programs stand still; its sandbox answers
	Stopping  State = "stopping"  // its sandbox is being stopped or removed; Session.End says for what
	Stopped   State = "stopped"   // its files are kept, and nothing runs
	Starting  State = "starting"  // its sandbox is being booted on its files
	Destroyed State = "destroyed" // a client ended it
	Expired   State = "expired"   // its time was up
	Crashed   State = "crashed"   // its files are lost
	Failed    State = "failed"    // it never ran
)

// next holds every change that may happen. An end goes through Stopping, and
// so does a stop: the row then says what is to be done to the sandbox before
// anybody does it, so a daemon that dies in between finishes the job at its
// next start. Only a session that never had a row fails at once.
var next = map[State][]State{
	Creating: {Running, Stopping, Failed},
	Running:  {Paused, Stopping},
	Paused:   {Running, Stopping},
	Stopping: {Stopped, Destroyed, Expired, Crashed, Failed},
	Stopped:  {Starting, Stopping},
	Starting: {Running, Stopping},
}

// Ended reports whether s is an end.
func (s State) Ended() bool { return len(next[s]) == 0 }

// Alive reports whether s is a state with a sandbox in which processes live.
func (s State) Alive() bool { return s == Running || s == Paused }

// settled reports whether s is a state in which a session can stay for long.
func (s State) settled() bool { return s.Alive() || s == Stopped }

// To is the one way to change a session's state. It refuses a change that is
// not in the table with Conflict and leaves the session as it was.
func (s *Session) To(state State, reason string) error {
	if !slices.Contains(next[s.State], state) {
		return errdefs.New(errdefs.Conflict, "session %s is %s and cannot become %s", s.ID, s.State, state)
	}
	s.State = state
	s.EndReason = reason
	return nil
}
