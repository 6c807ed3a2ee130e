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
	Stopping  State = "stopping"  // somebody ended it; its sandbox is being removed
	Destroyed State = "destroyed" // a client ended it
	Expired   State = "expired"   // its time was up
	Crashed   State = "crashed"   // its runner died, or the host restarted
	Failed    State = "failed"    // it never ran
)

// next holds every change that may happen. An end goes through Stopping: the
// row then says that the sandbox is to be removed before anybody removes it,
// so a daemon that dies in between finishes the job at its next start. Only a
// session that never had a row fails at once.
var next = map[State][]State{
	Creating: {Running, Stopping, Failed},
	Running:  {Stopping},
	Stopping: {Destroyed, Expired, Crashed, Failed},
}

// Ended reports whether s is an end.
func (s State) Ended() bool { return len(next[s]) == 0 }

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
