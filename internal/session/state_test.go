package session_test

import (
	"slices"
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
)

// TestStates holds the whole table: what is not in it is refused.
func TestStates(t *testing.T) {
	all := []session.State{
		session.Creating, session.Running, session.Paused, session.Stopping, session.Stopped, session.Starting,
		session.Destroyed, session.Expired, session.Crashed, session.Failed,
	}
	allowed := map[session.State][]session.State{
		session.Creating: {session.Running, session.Stopping, session.Failed},
		session.Running:  {session.Paused, session.Stopping},
		session.Paused:   {session.Running, session.Stopping},
		session.Stopping: {session.Stopped, session.Destroyed, session.Expired, session.Crashed, session.Failed},
		session.Stopped:  {session.Starting, session.Stopping},
		session.Starting: {session.Running, session.Stopping},
	}
	for _, from := range all {
		for _, to := range all {
			s := session.Session{State: from, EndReason: "before"}
			err := s.To(to, "why")
			switch {
			case slices.Contains(allowed[from], to):
				if err != nil || s.State != to || s.EndReason != "why" {
					t.Errorf("%s to %s: %v, %+v", from, to, err, s)
				}
			case !errdefs.Is(err, errdefs.Conflict) || s.State != from || s.EndReason != "before":
				t.Errorf("%s to %s: %v, %+v", from, to, err, s)
			}
		}
		if ends := len(allowed[from]) == 0; from.Ended() != ends {
			t.Errorf("%s ended: %v", from, from.Ended())
		}
	}
}
