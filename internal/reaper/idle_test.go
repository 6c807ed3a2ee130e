package reaper_test

import (
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
)

func TestIdleSessionIsPausedAndEnds(t *testing.T) {
	run(t, time.Hour, 0, func(t *testing.T, s *system) {
		x := s.make(session.CreateRequest{OnIdle: session.OnIdlePause, IdleTimeout: 10 * time.Minute})
		time.Sleep(9 * time.Minute)
		s.want(x.ID, session.Running)
		time.Sleep(time.Minute + 6*time.Second)
		s.want(x.ID, session.Paused)
		time.Sleep(5 * time.Minute)
		s.exec(x.ID, "true") // wakes it, and begins its idle time anew
		s.want(x.ID, session.Running)
		time.Sleep(10*time.Minute + 6*time.Second)
		s.want(x.ID, session.Paused)
		time.Sleep(50 * time.Minute)
		s.want(x.ID, session.Expired)
	})
}

func TestIdleSessionIsStoppedAndEnds(t *testing.T) {
	run(t, time.Hour, 0, func(t *testing.T, s *system) {
		x := s.make(session.CreateRequest{OnIdle: session.OnIdleStop, IdleTimeout: 10 * time.Minute})
		s.exec(x.ID, "echo kept > file")
		time.Sleep(10*time.Minute + 6*time.Second)
		s.want(x.ID, session.Stopped)
		if _, err := s.Sessions.Start(t.Context(), everyone, x.ID); err != nil {
			t.Fatal(err)
		}
		if r := s.exec(x.ID, "grep kept file"); r.ExitCode != 0 {
			t.Errorf("the file is gone: %+v", r)
		}
		time.Sleep(10*time.Minute + 6*time.Second)
		s.want(x.ID, session.Stopped)
		time.Sleep(7*24*time.Hour - time.Hour) // its ttl does not count
		s.want(x.ID, session.Stopped)
		time.Sleep(2 * time.Hour)
		s.want(x.ID, session.Expired)
	})
}

func TestIdleTimeoutOfDestroy(t *testing.T) {
	run(t, time.Hour, 0, func(t *testing.T, s *system) {
		x := s.make(session.CreateRequest{IdleTimeout: 10 * time.Minute})
		time.Sleep(10*time.Minute + 6*time.Second)
		s.want(x.ID, session.Expired)
	})
}

func TestLifetimeEndsWhatIsPausedOrStopped(t *testing.T) {
	run(t, time.Hour, 2*time.Hour, func(t *testing.T, s *system) {
		paused, stopped := s.make(session.CreateRequest{Lifetime: time.Minute}), s.make(session.CreateRequest{Lifetime: time.Minute})
		if _, err := s.Sessions.Pause(t.Context(), everyone, paused.ID, session.MemoryRAM); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Sessions.Stop(t.Context(), everyone, stopped.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Second)
		s.want(paused.ID, session.Paused)
		s.want(stopped.ID, session.Stopped)
		time.Sleep(16 * time.Second)
		s.want(paused.ID, session.Expired)
		s.want(stopped.ID, session.Expired)
	})
}

func TestStopIsTriedAgain(t *testing.T) {
	run(t, time.Hour, 0, func(t *testing.T, s *system) {
		x := s.create()
		s.driver.stops.Store(3)
		if _, err := s.Sessions.Stop(t.Context(), everyone, x.ID); !errdefs.Is(err, errdefs.Unavailable) {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		s.want(x.ID, session.Stopped)
	})
}

func TestPausedSandboxThatDiesIsNoticed(t *testing.T) {
	run(t, time.Hour, 0, func(t *testing.T, s *system) {
		x := s.create()
		if _, err := s.Sessions.Pause(t.Context(), everyone, x.ID, session.MemoryRAM); err != nil {
			t.Fatal(err)
		}
		s.local.KillRunner(t, x.Sandbox)
		time.Sleep(11 * time.Second)
		s.want(x.ID, session.Stopped)
	})
}
