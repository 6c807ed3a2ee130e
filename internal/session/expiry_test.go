package session_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/events"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/multidriver"
	"github.com/sandkasten/sandkasten/internal/runtime/runtimetest"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/workspaces"
)

// Somebody means to come back to a session that has a name. What a client or the operator
// says counts more.
func TestWhatIsDoneAtTheEndOfTheTTL(t *testing.T) {
	const stop, destroy = session.OnExpiryStop, session.OnExpiryDestroy
	for _, c := range []struct {
		name                   string
		setting, asked         session.OnExpiry
		named, without, hidden session.OnExpiry
	}{
		{"nobody says anything", "", "", stop, destroy, destroy},
		{"the operator has all stopped", stop, "", stop, stop, destroy},
		{"the operator has all destroyed", destroy, "", destroy, destroy, destroy},
		{"the client asks for a stop", destroy, stop, stop, stop, destroy},
		{"the client asks for the end", stop, destroy, destroy, destroy, destroy},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newHost(t).start(t, withWorkspaces, func(o *session.Options) { o.Defaults.OnExpiry = c.setting })
			named := d.create(t, session.CreateRequest{Name: "build", OnExpiry: c.asked})
			without := d.create(t, session.CreateRequest{OnExpiry: c.asked, WorkspaceID: "w"})
			if named.OnExpiry != c.named || without.OnExpiry != c.without {
				t.Errorf("with a name %q, without %q", named.OnExpiry, without.OnExpiry)
			}
			if fork := d.fork(t, named.ID, session.ForkRequest{Count: 1})[0]; fork.OnExpiry != c.named {
				t.Errorf("a fork, which has no name: %q", fork.OnExpiry)
			}
			d.destroy(t, without.ID)
			id, err := d.Sessions.OfWorkspace(t.Context(), everyone, "w")
			if err != nil {
				t.Fatal(err)
			}
			if row, err := d.store.Get(t.Context(), id); err != nil || row.OnExpiry != c.hidden {
				t.Errorf("behind the files of a workspace: %q, %v", row.OnExpiry, err)
			}
		})
	}
	d := newHost(t).start(t)
	_, err := d.Sessions.Create(t.Context(), everyone, session.CreateRequest{OnExpiry: "keep"})
	wantCode(t, err, errdefs.InvalidArgument)
	s := d.create(t, session.CreateRequest{})
	for _, what := range []session.OnExpiry{stop, "", destroy, stop} {
		want := what
		if want == "" {
			want = stop
		}
		got, err := d.Sessions.Update(t.Context(), everyone, s.ID, session.UpdateRequest{Policy: session.Policy{OnExpiry: what}})
		if err != nil || got.OnExpiry != want {
			t.Errorf("changed to %q: %q, %v", what, got.OnExpiry, err)
		}
		if row, err := d.store.Get(t.Context(), s.ID); err != nil || row.OnExpiry != want {
			t.Errorf("its row says %q, %v", row.OnExpiry, err)
		}
	}
}

// Where a stop would lose the files the session ends, and says so from the start.
func TestExpiryWhereAStopKeepsNothing(t *testing.T) {
	h := newHost(t)
	lasting := func(o *session.Options) { o.Defaults.TTL = time.Minute }
	synctest.Test(t, func(t *testing.T) {
		h.driver.InMemory = true
		d := h.start(t, lasting)
		asked := d.create(t, session.CreateRequest{OnExpiry: session.OnExpiryStop})
		named := d.create(t, session.CreateRequest{Name: "build"})
		changed, err := d.Sessions.Update(t.Context(), everyone, asked.ID, session.UpdateRequest{Policy: session.Policy{OnExpiry: session.OnExpiryStop}})
		if err != nil || changed.OnExpiry != session.OnExpiryDestroy {
			t.Errorf("changed to %q, %v", changed.OnExpiry, err)
		}
		time.Sleep(61 * time.Second)
		for _, s := range []session.Session{asked, named} {
			if s.OnExpiry != session.OnExpiryDestroy {
				t.Errorf("the answer says %s", s.OnExpiry)
			}
			if err := d.Upkeep.Expire(t.Context(), part, s.ID); err != nil {
				t.Fatal(err)
			}
			d.want(t, s.ID, session.Expired)
		}
		d.stop()

		h.driver.InMemory = false
		d = h.start(t, lasting)
		earlier := d.create(t, session.CreateRequest{Name: "earlier"})
		if earlier.OnExpiry != session.OnExpiryStop {
			t.Fatalf("a driver that can stop: %s", earlier.OnExpiry)
		}
		d.stop()
		d = h.start(t, lasting, func(o *session.Options) { o.Driver = faultyDriver{Driver: h.driver} })
		for _, s := range []session.Session{d.want(t, earlier.ID, session.Running), d.create(t, session.CreateRequest{OnExpiry: session.OnExpiryStop})} {
			if s.OnExpiry != session.OnExpiryDestroy {
				t.Errorf("a driver that cannot stop: %s", s.OnExpiry)
			}
		}
		time.Sleep(61 * time.Second)
		if err := d.Upkeep.Expire(t.Context(), part, earlier.ID); err != nil {
			t.Fatal(err)
		}
		d.want(t, earlier.ID, session.Expired)
		d.stop()
	})
}

// leave makes a session that nobody has stopped by hand.
func (d *daemon) leave(t testing.TB, owner string, req session.CreateRequest) session.Session {
	t.Helper()
	s := d.createAs(t, as(owner), req)
	if err := d.Upkeep.StopFailing(t.Context(), part, s.ID, "it was left"); err != nil {
		t.Fatal(err)
	}
	return d.want(t, s.ID, session.Stopped)
}

// short is a driver's host whose disk has no room for as long as too many sandboxes are on
// it.
type short struct {
	host host
	most int
}

func (s short) admit(ctx context.Context, a session.Admission) error {
	n := 0
	for _, err := range s.host.driver.List(ctx) {
		if err != nil {
			return err
		}
		n++
	}
	if n >= s.most && a.Owner != "" {
		return errdefs.Wrap(errdefs.ErrDiskShort, errdefs.Unavailable, "%d sandboxes take the whole disk", n)
	}
	return nil
}

// Where there is no room for a session, its owner's stopped ones go that nobody stopped by
// hand, those first that were stopped first, and each tells why.
func TestStoppedSessionsMakeRoom(t *testing.T) {
	disk := runtime.Limits{DiskMB: 100}
	for what, limit := range map[string]func(host, *session.Options){
		"max_sessions": func(_ host, o *session.Options) { o.Maxima.Sessions = 5 },
		"the quota max_sessions": func(_ host, o *session.Options) {
			o.Quotas = auth.FixedQuotas{Of: map[string]auth.Quota{"alice": {Sessions: 4}}}
		},
		"the quota disk_mb": func(_ host, o *session.Options) {
			o.Quotas = auth.FixedQuotas{Of: map[string]auth.Quota{"alice": {DiskMB: 400}}}
		},
		"whole disk": func(h host, o *session.Options) { o.Admit = short{h, 5}.admit },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			hub := events.NewHub(events.Options{})
			freed := 0
			d := h.start(t, func(o *session.Options) {
				limit(h, o)
				o.Events, o.Freed = hub, func() { freed++ }
			})
			theirs := d.leave(t, "bob", session.CreateRequest{Limits: disk})
			first := d.leave(t, "alice", session.CreateRequest{Limits: disk})
			byHand := d.leave(t, "alice", session.CreateRequest{Limits: disk})
			second := d.leave(t, "alice", session.CreateRequest{Limits: disk})
			if _, err := d.Sessions.Stop(t.Context(), as("alice"), byHand.ID); err != nil { // which keeps it
				t.Fatal(err)
			}
			// Another start and stop: it is the youngest of the stopped ones from now on.
			if _, err := d.Sessions.Start(t.Context(), as("alice"), first.ID); err != nil {
				t.Fatal(err)
			}
			if err := d.Upkeep.StopFailing(t.Context(), part, first.ID, "it was left again"); err != nil {
				t.Fatal(err)
			}
			running := d.createAs(t, as("alice"), session.CreateRequest{Limits: disk})
			told, err := d.Events.Subscribe(t.Context(), as("alice"), "", events.Request{})
			if err != nil {
				t.Fatal(err)
			}
			defer told.Close()
			for i, gone := range []session.Session{second, first} {
				d.createAs(t, as("alice"), session.CreateRequest{Limits: disk})
				s := d.want(t, gone.ID, session.Expired)
				if !strings.Contains(s.EndReason, "another session needed its room") || !strings.Contains(s.EndReason, strings.TrimPrefix(what, "the quota ")) && what != "max_sessions" {
					t.Errorf("session %d ended because %q", i, s.EndReason)
				}
				if ended := untilEnded(t, told, gone.ID); ended.EndReason != s.EndReason {
					t.Errorf("the event says %q", ended.EndReason)
				}
			}
			if want := map[bool]int{true: 2}[what == "whole disk"]; freed != want {
				t.Errorf("the host was looked at anew %d times, not %d", freed, want)
			}
			_, err = d.Sessions.Create(t.Context(), as("alice"), session.CreateRequest{Limits: disk})
			if err == nil {
				t.Error("a session is made with room that nobody gave")
			}
			d.want(t, byHand.ID, session.Stopped)
			d.want(t, theirs.ID, session.Stopped)
			d.want(t, running.ID, session.Running)
		})
	}
}

// untilEnded waits for the event of a session's end.
func untilEnded(t *testing.T, told *events.Subscription, id session.ID) session.Session {
	t.Helper()
	for {
		batch, err := told.Next(t.Context(), time.Minute)
		if err != nil || len(batch.Events) == 0 {
			t.Fatalf("no event of the end of %s: %v", id, err)
		}
		for _, e := range batch.Events {
			if e.Type == events.SessionEnded && e.Session == string(id) {
				return e.Data.(session.Event).Session
			}
		}
	}
}

// Nothing ends in vain: what all of them together would not make room for, what they take
// none of, and what has their name.
func TestStoppedSessionsAreNoRoom(t *testing.T) {
	disk := runtime.Limits{DiskMB: 100}
	held := make(map[session.ID]bool)
	quotas := &changingQuotas{}
	d := newHost(t).start(t, withWorkspaces, func(o *session.Options) {
		o.Quotas = quotas
		o.Held = func(_ context.Context, id session.ID) bool { return held[id] }
	})
	left := d.leave(t, "alice", session.CreateRequest{Name: "build", Limits: disk})
	running := d.createAs(t, as("alice"), session.CreateRequest{Limits: disk})
	refused := func(q auth.Quota, req session.CreateRequest, code errdefs.Code) {
		t.Helper()
		quotas.quota = q
		_, err := d.Sessions.Create(t.Context(), as("alice"), req)
		wantCode(t, err, code)
		d.want(t, left.ID, session.Stopped)
	}
	refused(auth.Quota{DiskMB: 200}, session.CreateRequest{Limits: runtime.Limits{DiskMB: 150}}, errdefs.InsufficientSpace)
	refused(auth.Quota{Running: 1}, session.CreateRequest{Limits: disk}, errdefs.ResourceExhausted)
	refused(auth.Quota{Sessions: 2}, session.CreateRequest{Name: "build", Limits: disk}, errdefs.AlreadyExists)
	refused(auth.Quota{Sessions: 2}, session.CreateRequest{Image: "missing", Limits: disk}, errdefs.NotFound)
	quotas.quota = auth.Quota{Sessions: 3}
	_, tooMany := d.Sessions.Fork(t.Context(), as("alice"), running.ID, session.ForkRequest{Count: 3})
	wantCode(t, tooMany, errdefs.ResourceExhausted)
	d.want(t, left.ID, session.Stopped)
	held[left.ID] = true
	refused(auth.Quota{Sessions: 2}, session.CreateRequest{Limits: disk}, errdefs.ResourceExhausted)
	held[left.ID] = false

	quotas.quota = auth.Quota{DiskMB: 250}
	_, err := d.Workspaces.Create(t.Context(), as("alice"), workspaces.WorkspaceRequest{ID: "large", SizeMB: 200})
	wantQuota(t, err, "disk_mb", errdefs.InsufficientSpace)
	d.want(t, left.ID, session.Stopped)
	if _, err := d.Workspaces.Create(t.Context(), as("alice"), workspaces.WorkspaceRequest{ID: "w", SizeMB: 100}); err != nil {
		t.Error(err)
	}
	d.want(t, left.ID, session.Expired)
	d.want(t, running.ID, session.Running)
}

// What a driver has elsewhere is no room on this host, and what is here none there.
func TestRoomIsMadeWhereItIsShort(t *testing.T) {
	h := newHost(t)
	full := ""
	d := h.start(t, func(o *session.Options) {
		drivers := map[string]runtime.Driver{runtime.Native: h.driver, "other": runtimetest.NewLocal(t), "far": runtimetest.NewLocal(t)}
		o.Driver, o.Drivers = multidriver.New(drivers, runtime.Native), []string{runtime.Native, "other", "far"}
		o.Remote = func(driver string) bool { return driver == "far" }
		o.Admit = func(_ context.Context, a session.Admission) error {
			if a.Driver == full {
				return errdefs.Wrap(errdefs.ErrDiskShort, errdefs.Unavailable, "no room with %s", full)
			}
			return nil
		}
	})
	far := d.leave(t, "alice", session.CreateRequest{Driver: "far"})
	here := d.leave(t, "alice", session.CreateRequest{Driver: "other"})
	refuse := func(driver string) {
		t.Helper()
		full = driver
		_, err := d.Sessions.Create(t.Context(), as("alice"), session.CreateRequest{Driver: driver})
		wantCode(t, err, errdefs.Unavailable)
	}
	refuse(runtime.Native)
	d.want(t, far.ID, session.Stopped)
	d.want(t, here.ID, session.Expired) // the disk of this host is of both its drivers
	here = d.leave(t, "alice", session.CreateRequest{Driver: "other"})
	refuse("far")
	d.want(t, here.ID, session.Stopped)
	d.want(t, far.ID, session.Expired)
}

// A start makes room as a create does, and not of the session that it starts.
func TestAStartMakesRoom(t *testing.T) {
	h := newHost(t)
	disk := short{h, 10}
	d := h.start(t, func(o *session.Options) {
		o.Admit = func(ctx context.Context, a session.Admission) error { return disk.admit(ctx, a) }
	})
	other, wanted := d.leave(t, "alice", session.CreateRequest{}), d.leave(t, "alice", session.CreateRequest{})
	disk.most = 2
	if _, err := d.Sessions.Start(t.Context(), as("alice"), wanted.ID); err != nil {
		t.Fatal(err)
	}
	d.want(t, other.ID, session.Expired)
	if err := d.Upkeep.StopFailing(t.Context(), part, wanted.ID, "it was left"); err != nil {
		t.Fatal(err)
	}
	disk.most = 1
	_, err := d.Sessions.Start(t.Context(), as("alice"), wanted.ID)
	wantCode(t, err, errdefs.Unavailable)
	d.want(t, wanted.ID, session.Stopped)
}

// Of creates at once each has the room of another session, and no more end than there are
// creates.
func TestCreatesAtOnceMakeRoom(t *testing.T) {
	const left, wanted = 6, 4
	d := newHost(t).start(t, func(o *session.Options) { o.Quotas = quota(auth.Quota{Sessions: left}) })
	for range left {
		d.leave(t, "alice", session.CreateRequest{})
	}
	var all sync.WaitGroup
	for range wanted {
		all.Go(func() {
			if _, err := d.Sessions.Create(t.Context(), as("alice"), session.CreateRequest{}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	states := make(map[session.State]int)
	for _, s := range d.list(t) {
		states[s.State]++
	}
	if states[session.Running] != wanted || states[session.Stopped] != left-wanted {
		t.Errorf("there are %v", states)
	}
}

// Who stopped a session is known over a restart, and no more when it has run again.
func TestAStopByHandIsRemembered(t *testing.T) {
	h := newHost(t)
	options := func(o *session.Options) { o.Quotas = quota(auth.Quota{Sessions: 2}) }
	d := h.start(t, options)
	byHand := d.createAs(t, as("alice"), session.CreateRequest{})
	if _, err := d.Sessions.Stop(t.Context(), as("alice"), byHand.ID); err != nil {
		t.Fatal(err)
	}
	left := d.leave(t, "alice", session.CreateRequest{})
	d.stop()
	d = h.start(t, options)
	d.createAs(t, as("alice"), session.CreateRequest{})
	d.want(t, byHand.ID, session.Stopped)
	d.want(t, left.ID, session.Expired)
	if _, err := d.Sessions.Start(t.Context(), as("alice"), byHand.ID); err != nil {
		t.Fatal(err)
	}
	if err := d.Upkeep.StopFailing(t.Context(), part, byHand.ID, "it was left"); err != nil {
		t.Fatal(err)
	}
	d.createAs(t, as("alice"), session.CreateRequest{})
	d.want(t, byHand.ID, session.Expired)
}

// The name of a stopped session is its own, and the refusal says how to have the one or
// the other.
func TestTheNameOfAStoppedSession(t *testing.T) {
	d := newHost(t).start(t)
	s := d.leave(t, "alice", session.CreateRequest{Name: "build"})
	_, err := d.Sessions.Create(t.Context(), as("alice"), session.CreateRequest{Name: "build"})
	wantCode(t, err, errdefs.AlreadyExists)
	for _, want := range []string{string(s.ID), "it was left", "`sandkasten start build`", "`sandkasten rm build`"} {
		if !strings.Contains(errdefs.MessageOf(err), want) {
			t.Errorf("%q does not say %s", errdefs.MessageOf(err), want)
		}
	}
}

// What has become of a session is said of its name, too, to its owner.
func TestWhatBecameOfAName(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	var last session.Session
	for i := range 2 {
		last = d.createAs(t, as("alice"), session.CreateRequest{Name: "build"})
		if i == 0 {
			d.destroy(t, last.ID)
		}
	}
	d.destroy(t, last.ID)
	d.stop()
	d = h.start(t)
	ended := d.want(t, last.ID, session.Destroyed)
	err := d.Sessions.NoneCalled(t.Context(), as("alice"), "build")
	wantCode(t, err, errdefs.NotFound)
	want := fmt.Sprintf("no session is called \"build\" now; %s, which was, was destroyed at %s: a client destroyed it", last.ID, ended.EndedAt.UTC().Format(time.DateTime))
	if got := errdefs.MessageOf(err); got != want {
		t.Errorf("%q", got)
	}
	for _, c := range []struct{ owner, ref string }{{"bob", "build"}, {"alice", "other"}, {"alice", ""}, {"alice", string(last.ID[:6])}} {
		if err := d.Sessions.NoneCalled(t.Context(), as(c.owner), c.ref); err.Error() != fmt.Sprintf("no such session: %q", c.ref) {
			t.Errorf("%s of %s: %v", c.ref, c.owner, err)
		}
	}
}
