package reaper_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/session"
)

const day = 24 * time.Hour

// A session that somebody means to come back to is stopped at the end of its ttl, and goes
// on where its files are. Stopped, it has a time of its own.
func TestIdleSessionIsStoppedAtTheEndOfItsTTL(t *testing.T) {
	run(t, time.Hour, 0, func(t *testing.T, s *system) {
		x := s.make(session.CreateRequest{Name: "build"})
		s.exec(x.ID, "echo kept > file")
		s.pass(59 * time.Minute)
		s.want(x.ID, session.Running)
		s.pass(time.Minute + 6*time.Second)
		s.want(x.ID, session.Stopped)
		stopped, err := s.Sessions.Get(t.Context(), everyone, x.ID)
		if err != nil || stopped.EndReason != "it was idle for 1h0m0s" {
			t.Errorf("it was stopped because %q, %v", stopped.EndReason, err)
		}
		if left := time.Until(stopped.ExpiresAt()); left < 7*day-time.Minute || left > 7*day {
			t.Errorf("it is kept for %s", left)
		}
		if _, err := s.Sessions.Start(t.Context(), everyone, x.ID); err != nil {
			t.Fatal(err)
		}
		if r := s.exec(x.ID, "grep kept file"); r.ExitCode != 0 {
			t.Errorf("the file is gone: %+v", r)
		}
		s.pass(time.Hour + 6*time.Second)
		s.want(x.ID, session.Stopped)
		s.pass(7*day - time.Minute)
		s.want(x.ID, session.Stopped)
		s.pass(2 * time.Minute)
		s.want(x.ID, session.Expired)
		ended, err := s.Sessions.Get(t.Context(), everyone, x.ID)
		if err != nil || !strings.HasPrefix(ended.EndReason, "it was stopped for 168h") {
			t.Errorf("it ended because %q, %v", ended.EndReason, err)
		}
	})
}

// What is paused when its time is up is stopped all the same.
func TestPausedSessionIsStoppedAtTheEndOfItsTTL(t *testing.T) {
	run(t, time.Hour, 0, func(t *testing.T, s *system) {
		x := s.make(session.CreateRequest{OnExpiry: session.OnExpiryStop, OnIdle: session.OnIdlePause})
		s.pass(5*time.Minute + 6*time.Second) // as ever without a time of its own
		s.want(x.ID, session.Paused)
		s.pass(55 * time.Minute)
		s.want(x.ID, session.Stopped)
	})
}

// Only the ttl stops: the maximum age ends a session in every state, and so does the idle
// time of one that is to be destroyed when it is idle.
func TestOnExpiryIsOfTheTTL(t *testing.T) {
	run(t, time.Hour, 0, func(t *testing.T, s *system) {
		old := s.make(session.CreateRequest{Name: "old", Lifetime: 30 * time.Minute})
		idle := s.make(session.CreateRequest{Name: "idle", OnIdle: session.OnIdleDestroy, IdleTimeout: 30 * time.Minute})
		stops := s.make(session.CreateRequest{OnIdle: session.OnIdleStop})
		plain := s.make(session.CreateRequest{})
		asked := s.make(session.CreateRequest{Name: "asked", OnExpiry: session.OnExpiryDestroy})
		s.pass(5*time.Minute + 6*time.Second)
		s.want(stops.ID, session.Stopped)
		s.pass(25 * time.Minute)
		s.want(old.ID, session.Expired)
		s.want(idle.ID, session.Expired)
		s.want(plain.ID, session.Running)
		s.pass(30 * time.Minute)
		s.want(plain.ID, session.Expired)
		s.want(asked.ID, session.Expired)
	})
}

// A stop at the end of the ttl that fails is tried again.
func TestStopAtTheEndOfTheTTLIsTriedAgain(t *testing.T) {
	run(t, time.Minute, 0, func(t *testing.T, s *system) {
		x := s.make(session.CreateRequest{Name: "build"})
		s.driver.stops.Store(3)
		s.pass(time.Minute + 30*time.Second)
		s.want(x.ID, session.Stopped)
	})
}

// pass has time go on in the bubble of run.
func (s *system) pass(d time.Duration) { <-time.After(d) }
