package session_test

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/ops"
	"github.com/sandkasten/sandkasten/protocol"
)

func TestPolicy(t *testing.T) {
	d := newHost(t).start(t, func(o *session.Options) {
		o.Defaults.TTL = time.Hour
		o.Defaults.IdleTimeout = 10 * time.Minute
		o.Maxima.TTL, o.Maxima.Lifetime = 2*time.Hour, 3*time.Hour
	})
	for _, c := range []struct {
		name   string
		ask    session.Policy
		idle   time.Duration // of the session
		idleAt time.Duration // after the last activity; 0 is never
		ends   time.Duration
		field  string // that is refused
	}{
		{"nothing", session.Policy{}, 0, 0, time.Hour, ""},
		{"destroy when idle", session.Policy{IdleTimeout: time.Minute}, time.Minute, 0, time.Minute, ""},
		{"pause", session.Policy{OnIdle: session.OnIdlePause}, 10 * time.Minute, 10 * time.Minute, time.Hour, ""},
		{"pause with a short life", session.Policy{OnIdle: session.OnIdlePause, TTL: 10 * time.Second}, 5 * time.Second, 5 * time.Second, 10 * time.Second, ""},
		{"stop", session.Policy{OnIdle: session.OnIdleStop, IdleTimeout: time.Minute}, time.Minute, time.Minute, time.Hour, ""},
		{"lifetime", session.Policy{Lifetime: time.Minute}, 0, 0, time.Minute, ""},
		{"stop too late", session.Policy{OnIdle: session.OnIdleStop, IdleTimeout: time.Hour}, 0, 0, 0, "idle_timeout_seconds"},
		{"destroy too late", session.Policy{IdleTimeout: 90 * time.Minute}, 0, 0, 0, "idle_timeout_seconds"},
		{"destroy at its ttl", session.Policy{IdleTimeout: time.Hour}, time.Hour, 0, time.Hour, ""},
		{"idle timeout too short", session.Policy{IdleTimeout: time.Millisecond}, 0, 0, 0, "idle_timeout_seconds"},
		{"idle timeout too long", session.Policy{IdleTimeout: 3 * time.Hour}, 0, 0, 0, "idle_timeout_seconds"},
		{"lifetime too long", session.Policy{Lifetime: 4 * time.Hour}, 0, 0, 0, "lifetime_seconds"},
		{"ttl too long", session.Policy{TTL: 3 * time.Hour}, 0, 0, 0, "ttl_seconds"},
		{"unknown", session.Policy{OnIdle: "hibernate"}, 0, 0, 0, "on_idle"},
	} {
		t.Run(c.name, func(t *testing.T) {
			check := func(s session.Session, err error) {
				t.Helper()
				if c.field != "" {
					wantCode(t, err, errdefs.InvalidArgument)
					if !strings.HasPrefix(errdefs.MessageOf(err), c.field) {
						t.Errorf("%q does not begin with %s", errdefs.MessageOf(err), c.field)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				var idleAt time.Duration
				if !s.IdleAt().IsZero() {
					idleAt = s.IdleAt().Sub(s.LastActivity)
				}
				ends := s.ExpiresAt().Sub(s.LastActivity).Round(time.Minute)
				if c.ends < time.Minute {
					ends = s.ExpiresAt().Sub(s.LastActivity)
				}
				if s.IdleTimeout != c.idle || idleAt != c.idleAt || ends != c.ends {
					t.Errorf("idle timeout %v, idle after %v, ends after %v", s.IdleTimeout, idleAt, ends)
				}
			}
			check(d.Sessions.Create(t.Context(), everyone, session.CreateRequest{TTL: c.ask.TTL, Lifetime: c.ask.Lifetime, IdleTimeout: c.ask.IdleTimeout, OnIdle: c.ask.OnIdle}))
			check(d.Sessions.Update(t.Context(), everyone, d.create(t, session.CreateRequest{}).ID, session.UpdateRequest{Policy: c.ask}))
		})
	}
}

func TestUpdate(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	s := d.create(t, session.CreateRequest{Labels: map[string]string{"a": "b", "c": "d"}})
	off := false
	changed, err := d.Sessions.Update(t.Context(), everyone, s.ID, session.UpdateRequest{
		Policy: session.Policy{TTL: time.Minute, OnIdle: session.OnIdleStop, AutoResume: &off},
		Labels: map[string]string{"e": "f"},
	})
	if err != nil {
		t.Fatal(err)
	}
	same, err := d.Sessions.Update(t.Context(), everyone, s.ID, session.UpdateRequest{})
	if diff := cmp.Diff(changed, same); err != nil || diff != "" {
		t.Errorf("an empty update: %v %s", err, diff)
	}
	if changed.TTL != time.Minute || changed.OnIdle != session.OnIdleStop || changed.AutoResume || len(changed.Labels) != 1 || changed.Labels["e"] != "f" {
		t.Errorf("%+v", changed)
	}
	if changed.LastActivity != s.LastActivity {
		t.Error("it counts as activity")
	}
	_, err = d.Sessions.Update(t.Context(), everyone, s.ID, session.UpdateRequest{Labels: map[string]string{"": "x"}})
	wantCode(t, err, errdefs.InvalidArgument)
	d.stop()

	d = h.start(t)
	row := d.want(t, s.ID, session.Running)
	if row.TTL != time.Minute || row.OnIdle != session.OnIdleStop || row.AutoResume || row.IdleTimeout != 30*time.Second || row.Labels["e"] != "f" || row.BootID != s.BootID {
		t.Errorf("after a restart: %+v", row)
	}
	if _, err := d.Sessions.Stop(t.Context(), everyone, s.ID); err != nil {
		t.Fatal(err)
	}
	if stopped, err := d.Sessions.Update(t.Context(), everyone, s.ID, session.UpdateRequest{Policy: session.Policy{TTL: time.Hour}}); err != nil || stopped.TTL != time.Hour || stopped.State != session.Stopped {
		t.Errorf("of a stopped one: %+v, %v", stopped, err)
	}
	if err := d.Sessions.Destroy(t.Context(), everyone, s.ID); err != nil {
		t.Fatal(err)
	}
	_, err = d.Sessions.Update(t.Context(), everyone, s.ID, session.UpdateRequest{})
	wantCode(t, err, errdefs.Conflict)
	_, err = d.Sessions.Update(t.Context(), everyone, "nosuchsession", session.UpdateRequest{})
	wantCode(t, err, errdefs.NotFound)
}

func TestHeartbeat(t *testing.T) {
	h := newHost(t)
	synctest.Test(t, func(t *testing.T) {
		d := h.start(t, func(o *session.Options) { o.Defaults.TTL = time.Minute })
		s := d.create(t, session.CreateRequest{})
		d.pause(t, s.ID)
		for range 3 {
			time.Sleep(50 * time.Second)
			if got, err := d.Sessions.Heartbeat(t.Context(), everyone, s.ID); err != nil || got.State != session.Paused || time.Until(got.ExpiresAt()) != time.Minute {
				t.Errorf("%+v, %v", got, err)
			}
			if err := d.Upkeep.Expire(t.Context(), part, s.ID); err != nil {
				t.Error(err)
			}
			d.want(t, s.ID, session.Paused)
		}
		time.Sleep(time.Minute)
		if err := d.Upkeep.Expire(t.Context(), part, s.ID); err != nil {
			t.Error(err)
		}
		d.want(t, s.ID, session.Expired)
		_, err := d.Sessions.Heartbeat(t.Context(), everyone, s.ID)
		wantCode(t, err, errdefs.Conflict)
		d.stop()
	})
}

// TestIdleLooksAgain: what came in time keeps a session as it is.
func TestIdleLooksAgain(t *testing.T) {
	h := newHost(t)
	synctest.Test(t, func(t *testing.T) {
		d := h.start(t)
		for what, want := range map[session.OnIdle]session.State{session.OnIdlePause: session.Paused, session.OnIdleStop: session.Stopped} {
			s := d.create(t, session.CreateRequest{OnIdle: what, IdleTimeout: time.Minute})
			idle := func(want session.State) {
				t.Helper()
				if err := d.Upkeep.Idle(t.Context(), part, s.ID); err != nil {
					t.Error(err)
				}
				d.want(t, s.ID, want)
			}
			time.Sleep(59 * time.Second)
			idle(session.Running)
			if _, err := d.Files.Stat(t.Context(), everyone, string(s.ID), protocol.Stat{Path: "."}); err != nil {
				t.Error(err)
			}
			time.Sleep(59 * time.Second)
			idle(session.Running)
			d.output(t, s.ID, "true")
			time.Sleep(59 * time.Second)
			idle(session.Running)
			time.Sleep(time.Second)
			idle(want)
			idle(want) // a second time changes nothing
			if s := d.want(t, s.ID, want); s.EndReason != "it was idle for 1m0s" {
				t.Errorf("reason %q", s.EndReason)
			}
		}
		d.stop()
	})
}

// TestIdleAgainstExec lets a command and the reaper meet at the moment: a
// command that was accepted runs to its end.
func TestIdleAgainstExec(t *testing.T) {
	h := newHost(t)
	synctest.Test(t, func(t *testing.T) {
		d := h.start(t)
		for range 10 {
			s := d.create(t, session.CreateRequest{OnIdle: session.OnIdlePause, IdleTimeout: time.Minute})
			time.Sleep(time.Minute)
			idle := make(chan error, 1)
			go func() { idle <- d.Upkeep.Idle(t.Context(), part, s.ID) }()
			var out bytes.Buffer
			result, err := d.Execs.Run(t.Context(), everyone, string(s.ID), ops.ExecRequest{Command: "echo ok"}, &out)
			if err != nil || out.String() != "ok\n" {
				t.Errorf("%q, %+v, %v", out.String(), result, err)
			}
			if err := <-idle; err != nil {
				t.Error(err)
			}
			d.want(t, s.ID, session.Running)
		}
		d.stop()
	})
}
