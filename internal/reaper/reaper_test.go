package reaper_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/reaper"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/runtimetest"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/ops"
	"github.com/sandkasten/sandkasten/internal/session/workspaces"
	"github.com/sandkasten/sandkasten/internal/store"
	"github.com/sandkasten/sandkasten/internal/store/storetest"
	"github.com/sandkasten/sandkasten/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type images struct{}

func (images) Resolve(context.Context, string) (string, error) { return runtimetest.LocalImage, nil }

// flaky is a driver that fails as often as its counters say.
type flaky struct {
	*runtimetest.Local
	destroys, lists, stops atomic.Int32
	absent                 atomic.Bool
}

func (f *flaky) Stop(ctx context.Context, id runtime.ID) error {
	if f.stops.Add(-1) >= 0 {
		return errBroken
	}
	return f.Local.Stop(ctx, id)
}

var errBroken = errors.New("broken for the test")

func (f *flaky) Destroy(ctx context.Context, id runtime.ID) error {
	if f.destroys.Add(-1) >= 0 {
		return errBroken
	}
	return f.Local.Destroy(ctx, id)
}

func (f *flaky) List(ctx context.Context) iter.Seq2[runtime.Status, error] {
	if f.lists.Add(-1) >= 0 {
		return func(yield func(runtime.Status, error) bool) { yield(runtime.Status{}, errBroken) }
	}
	if f.absent.Load() {
		return func(yield func(runtime.Status, error) bool) {
			yield(runtime.Status{}, &runtime.AbsentError{Driver: runtime.Native, Err: errBroken})
		}
	}
	return f.Local.List(ctx)
}

// everyone may use the sessions of all owners, and part is one of the daemon.
var (
	everyone = auth.Anonymous()
	part     = auth.System("test")
)

// system is a manager and a reaper at work, in a bubble of its own time.
type system struct {
	*session.Manager
	t      *testing.T
	local  *runtimetest.Local
	driver *flaky
	reaper *reaper.Reaper
}

// retention is of workspaces.
const retention = 3 * time.Hour

// run runs test with a system whose sessions live for ttl and at most life.
func run(t *testing.T, ttl, life time.Duration, test func(*testing.T, *system)) {
	local := runtimetest.NewLocal(t)
	path := storetest.NewDB(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		db, err := store.Open(ctx, path)
		if err != nil {
			t.Fatal(err)
		}
		driver := &flaky{Local: local}
		manager := session.New(session.Options{
			Store: db, Driver: driver, Images: images{},
			Defaults:   session.Defaults{Image: "base", TTL: ttl},
			Maxima:     session.Maxima{Lifetime: life},
			Workspaces: workspaces.WorkspaceOptions{Store: db, Retention: retention},
		})
		s := &system{Manager: manager, t: t, local: local, driver: driver}
		s.reaper = reaper.New(reaper.Options{Manager: manager, Every: 5 * time.Second, Keep: 24 * time.Hour})
		ended := make(chan error, 2)
		go func() { ended <- manager.Run(ctx) }()
		go func() { ended <- s.reaper.Run(ctx) }()
		synctest.Wait()
		test(t, s)
		cancel()
		if err := errors.Join(<-ended, <-ended, db.Close()); err != nil {
			t.Error(err)
		}
	})
}

func (s *system) create() session.Session { return s.make(session.CreateRequest{}) }

func (s *system) make(req session.CreateRequest) session.Session {
	s.t.Helper()
	created, err := s.Sessions.Create(s.t.Context(), everyone, req)
	if err != nil {
		s.t.Fatal(err)
	}
	return created
}

func (s *system) exec(id session.ID, command string) protocol.Record {
	s.t.Helper()
	var out bytes.Buffer
	r, err := s.Execs.Run(s.t.Context(), everyone, string(id), ops.ExecRequest{Command: command}, &out)
	if err != nil {
		s.t.Fatalf("%s: %v", command, err)
	}
	return r
}

// want checks a session's state and that it has a sandbox if it should.
func (s *system) want(id session.ID, state session.State) {
	s.t.Helper()
	synctest.Wait()
	x, err := s.Sessions.Get(s.t.Context(), everyone, id)
	if err != nil {
		s.t.Fatal(err)
	}
	if x.State != state {
		s.t.Errorf("session is %s (%s), want %s", x.State, x.EndReason, state)
	}
	_, err = s.local.Open(s.t.Context(), x.Sandbox)
	if alive := err == nil; alive != state.Alive() {
		s.t.Errorf("session is %s and its sandbox alive: %v", x.State, alive)
	}
}

func TestIdleSessionExpires(t *testing.T) {
	run(t, time.Hour, 0, func(t *testing.T, s *system) {
		x := s.create()
		time.Sleep(59 * time.Minute)
		s.want(x.ID, session.Running)
		time.Sleep(time.Minute + 6*time.Second)
		s.want(x.ID, session.Expired)
	})
}

func TestActivityExtends(t *testing.T) {
	run(t, time.Hour, 0, func(t *testing.T, s *system) {
		x := s.create()
		for range 5 {
			time.Sleep(50 * time.Minute)
			s.exec(x.ID, "true")
		}
		s.want(x.ID, session.Running)
		for range 5 { // looking is not using
			time.Sleep(15 * time.Minute)
			if _, err := s.Sessions.Get(t.Context(), everyone, x.ID); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Sessions.List(t.Context(), everyone, session.ListRequest{}); err != nil {
				t.Fatal(err)
			}
		}
		s.want(x.ID, session.Expired)
	})
}

func TestLifetimeIsAbsolute(t *testing.T) {
	run(t, time.Hour, 2*time.Hour, func(t *testing.T, s *system) {
		x := s.create()
		for range 3 {
			time.Sleep(39 * time.Minute)
			s.exec(x.ID, "true")
		}
		s.want(x.ID, session.Running)
		time.Sleep(3*time.Minute + 6*time.Second)
		s.want(x.ID, session.Expired)
	})
}

func TestDeadRunnerIsNoticed(t *testing.T) {
	run(t, time.Hour, 0, func(t *testing.T, s *system) {
		x, other := s.create(), s.create()
		s.local.KillRunner(t, x.Sandbox)
		time.Sleep(11 * time.Second)
		s.want(x.ID, session.Stopped)
		s.want(other.ID, session.Running)
	})
}

func TestRemovalIsTriedAgain(t *testing.T) {
	run(t, time.Hour, 0, func(t *testing.T, s *system) {
		x := s.create()
		s.driver.destroys.Store(3)
		if err := s.Sessions.Destroy(t.Context(), everyone, x.ID); !errdefs.Is(err, errdefs.Unavailable) {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Second)
		if got, err := s.Sessions.Get(t.Context(), everyone, x.ID); err != nil || got.State != session.Stopping {
			t.Errorf("%s, %v", got.State, err)
		}
		time.Sleep(20 * time.Second)
		s.want(x.ID, session.Destroyed)
	})
}

// TestDriverInTrouble: a driver that cannot list is no reason to end anything.
func TestDriverInTrouble(t *testing.T) {
	run(t, time.Minute, 0, func(t *testing.T, s *system) {
		x := s.create()
		s.driver.lists.Store(100)
		time.Sleep(50 * time.Second)
		s.want(x.ID, session.Running)
		if err := s.reaper.Round(t.Context()); !errors.Is(err, errBroken) {
			t.Errorf("round: %v", err)
		}
		s.driver.lists.Store(0)
		time.Sleep(20 * time.Second)
		s.want(x.ID, session.Expired)
	})
}

// TestAbsentDriver: what is of a driver that does not answer is left alone,
// until it does.
func TestAbsentDriver(t *testing.T) {
	run(t, time.Minute, 0, func(t *testing.T, s *system) {
		x := s.create()
		s.driver.absent.Store(true)
		time.Sleep(2 * time.Minute)
		s.want(x.ID, session.Running)
		if err := s.reaper.Round(t.Context()); err != nil {
			t.Errorf("round: %v", err)
		}
		s.driver.absent.Store(false)
		time.Sleep(20 * time.Second)
		s.want(x.ID, session.Expired)
	})
}

func TestEndedRowsAreForgotten(t *testing.T) {
	run(t, time.Hour, 0, func(t *testing.T, s *system) {
		old := s.create()
		if err := s.Sessions.Destroy(t.Context(), everyone, old.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(23 * time.Hour)
		s.want(old.ID, session.Destroyed)
		alive := s.create()
		time.Sleep(25 * time.Minute)
		s.exec(alive.ID, "true")
		time.Sleep(50 * time.Minute)
		if _, err := s.Sessions.Get(t.Context(), everyone, old.ID); !errdefs.Is(err, errdefs.NotFound) {
			t.Errorf("after a day: %v", err)
		}
		s.want(alive.ID, session.Running)
	})
}

func TestSecondRoundFindsNothing(t *testing.T) {
	run(t, time.Minute, 0, func(t *testing.T, s *system) {
		s.create()
		time.Sleep(50 * time.Second)
		kept := s.create()
		time.Sleep(11 * time.Second)
		for range 2 {
			if err := s.reaper.Round(t.Context()); err != nil {
				t.Fatal(err)
			}
			all, err := s.Sessions.List(t.Context(), everyone, session.ListRequest{})
			if err != nil || len(all) != 1 || all[0].ID != kept.ID {
				t.Errorf("alive %v, %v", all, err)
			}
		}
	})
}

// TestExtendAgainstExpire lets commands and the reaper meet at the moment of
// expiry: a command that was accepted runs to its end.
func TestExtendAgainstExpire(t *testing.T) {
	run(t, time.Minute, 0, func(t *testing.T, s *system) {
		for range 20 {
			x := s.create()
			time.Sleep(time.Until(x.ExpiresAt()))
			expired := make(chan error, 1)
			go func() { expired <- s.Upkeep.Expire(t.Context(), part, x.ID) }()
			var out bytes.Buffer
			r, err := s.Execs.Run(t.Context(), everyone, string(x.ID), ops.ExecRequest{Command: "echo ok"}, &out)
			if e := <-expired; e != nil {
				t.Error(e)
			}
			got, getErr := s.Sessions.Get(t.Context(), everyone, x.ID)
			switch {
			case getErr != nil:
				t.Error(getErr)
			case err != nil: // it came too late
				if !errdefs.Is(err, errdefs.Conflict) || got.State != session.Expired {
					t.Errorf("refused with %v, session %s", err, got.State)
				}
			case out.String() != "ok\n" || r.ExitCode != 0 || got.State != session.Running:
				t.Errorf("accepted: %q, %+v, session %s", out.String(), r, got.State)
			}
		}
	})
}

// A workspace goes when it was not used for the retention, counted from its
// last session's end, and its files' helper goes by itself.
func TestWorkspacesExpire(t *testing.T) {
	run(t, 2*time.Hour, 0, func(t *testing.T, s *system) {
		exists := func(id string) bool {
			_, err := s.Workspaces.Get(t.Context(), everyone, id)
			if err != nil && !errdefs.Is(err, errdefs.NotFound) {
				t.Fatal(err)
			}
			return err == nil
		}
		for _, id := range []string{"unused", "used"} {
			if _, err := s.Workspaces.Create(t.Context(), everyone, workspaces.WorkspaceRequest{ID: id}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Hour)
		if _, err := s.Sessions.Create(t.Context(), everyone, session.CreateRequest{WorkspaceID: "used"}); err != nil {
			t.Fatal(err)
		}
		helper, err := s.Sessions.OfWorkspace(t.Context(), everyone, "used")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if all, err := s.Sessions.List(t.Context(), part, session.ListRequest{Helpers: true}); err != nil || len(all) != 1 || all[0].ID == helper {
			t.Errorf("after a minute: %+v, %v", all, err)
		}
		time.Sleep(70 * time.Minute)
		if exists("unused") || !exists("used") {
			t.Errorf("after its retention: unused %v, used %v", exists("unused"), exists("used"))
		}
		time.Sleep(retention + 40*time.Minute) // its session ended at 4:00, now it is 6:51
		if !exists("used") {
			t.Error("it went before its retention after its last use")
		}
		time.Sleep(30 * time.Minute)
		if exists("used") {
			t.Error("it stays")
		}
	})
}
