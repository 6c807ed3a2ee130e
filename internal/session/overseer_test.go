package session_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/events"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
	"github.com/sandkasten/sandkasten/internal/session/workspaces"
)

// overseer is an admin, and inspector one with the right to look into what others have.
var (
	overseer  = auth.Principal{Owner: "root", Scopes: auth.ScopeOversee | auth.ScopeDaemon}
	inspector = overseer.With(auth.ScopeEveryOwner)
)

// seen are the operations on a session that an admin does with those of others: what
// each shows is no file and no output, and it changes nothing but to end the session.
var seen = map[string]bool{
	"Sessions.Get": true, "Sessions.Stop": true, "Sessions.Destroy": true, "Sessions.Stats": true, "Sessions.Workspace": true,
	"Networks.Get": true, "Networks.Totals": true, "Events.Subscribe": true,
}

// looks records who is told that somebody looks in.
type looks struct {
	mu   sync.Mutex
	told []string // guarded by mu; owners
	err  error
}

func (l *looks) note(_ context.Context, _ auth.Principal, owner, _ string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = append(l.told, owner)
	return l.err
}

func (l *looks) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.told)
}

// Every operation of the core on a session of alice's, in the name of an admin: what is
// not in seen is refused as long as the admin has no right to look in, and with it alice
// is told first, or it is refused.
func TestAnAdminLooksIntoNothingWithoutTheRight(t *testing.T) {
	h := newHost(t)
	l := &looks{err: errors.New("alice cannot be told")}
	hub := events.NewHub(events.Options{})
	d := h.start(t, h.withSnapshots(t), func(o *session.Options) {
		o.Workspaces = workspaces.WorkspaceOptions{Store: o.Store.(workspaces.WorkspaceStore)}
		o.LookIn, o.Events = l.note, hub
	})
	theirs := string(d.createAs(t, as("alice"), session.CreateRequest{Name: "theirs", WorkspaceID: "w"}).ID)
	called := 0
	for name, service := range d.services() {
		for i := range service.NumMethod() {
			method := name + "." + service.Type().Method(i).Name
			_, exempt := ofNothing[method]
			ofSession := name == "Sessions" || name == "Execs" || name == "Files" || name == "Networks" || method == "Snapshots.Create"
			if exempt || !ofSession || seen[method] || method == "Sessions.OfWorkspace" || method == "Sessions.NoneCalled" {
				continue
			}
			called++
			before := l.count()
			err, _ := callAs(t, service.Method(i), overseer, theirs)
			if !errdefs.Is(err, errdefs.PermissionDenied) || !strings.Contains(errdefs.MessageOf(err), "alice's") {
				t.Errorf("%s by an admin without the right: %v", method, err)
			}
			if l.count() != before {
				t.Errorf("%s was refused, and alice told of it", method)
			}
			if err, _ := callAs(t, service.Method(i), inspector, theirs); !errors.Is(err, l.err) || l.count() == before {
				t.Errorf("%s by an admin with the right, of whom alice was not told: %v", method, err)
			}
		}
	}
	if called < 35 {
		t.Errorf("only %d operations were found", called)
	}
	// What runs in it shows in no stream of an admin's, but in one of the session alone.
	if _, err := d.Events.Subscribe(t.Context(), inspector, session.ID(theirs), events.Request{}); !errors.Is(err, l.err) {
		t.Errorf("the events of the session with the right: %v", err)
	}
	for _, id := range []session.ID{"", session.ID(theirs)} {
		s, err := d.Events.Subscribe(t.Context(), overseer, id, events.Request{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		hub.Publish(events.Event{Type: events.ExecStarted, Owner: "alice", Session: theirs})
		hub.Publish(events.Event{Type: events.NetworkDecision, Owner: "alice", Session: theirs})
		hub.Publish(events.Event{Type: events.SessionChanged, Owner: "alice", Session: theirs})
		if b, err := s.Next(t.Context(), 0); err != nil || len(b.Events) != 1 || b.Events[0].Type != events.SessionChanged {
			t.Errorf("an admin is told of %d events in %q, %v", len(b.Events), id, err)
		}
	}
	if _, err := d.Sessions.Get(t.Context(), overseer, "aaaaaaaaaaaaaaaaaaaaaaaaaa"); !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("what never was: %v", err)
	}
}

func TestAnAdminSeesAndEndsTheSessionsOfAll(t *testing.T) {
	l := &looks{}
	d := newHost(t).start(t, func(o *session.Options) { o.LookIn = l.note })
	ctx := t.Context()
	theirs := d.createAs(t, as("alice"), session.CreateRequest{Name: "build"})
	other := d.createAs(t, as("bob"), session.CreateRequest{})
	all := must(d.Sessions.List(ctx, overseer, session.ListRequest{}))
	if len(all) != 2 || all[0].Owner != "alice" || all[1].Owner != "bob" {
		t.Errorf("an admin sees %+v", all)
	}
	if got := must(d.Sessions.Get(ctx, overseer, theirs.ID)); got.Owner != "alice" {
		t.Errorf("an admin sees %+v", got)
	}
	must(d.Sessions.Stats(ctx, overseer, theirs.ID))
	if used := d.Sessions.LastStats(ctx, overseer, []session.ID{theirs.ID}); used[0].At.IsZero() {
		t.Error("an admin does not see what alice's session uses")
	}
	// A name is of the own sessions: an admin who ends "build" ends no other's.
	if found := must(d.Sessions.Find(overseer, "build")); found != "build" {
		t.Errorf("an admin means %s by alice's name", found)
	}
	if found := must(d.Sessions.Find(overseer, string(theirs.ID[:8]))); found != theirs.ID {
		t.Errorf("an admin finds %s by the beginning of its id", found)
	}
	if s := must(d.Sessions.Stop(ctx, overseer, theirs.ID)); s.State != session.Stopped || s.EndReason != "the admin root stopped it" {
		t.Errorf("stopped it is %s: %s", s.State, s.EndReason)
	}
	if err := d.Sessions.Destroy(ctx, overseer, other.ID); err != nil {
		t.Fatal(err)
	}
	if s := must(d.Sessions.Get(ctx, as("bob"), other.ID)); s.State != session.Destroyed || s.EndReason != "the admin root destroyed it" {
		t.Errorf("bob reads that it is %s: %s", s.State, s.EndReason)
	}
	if _, err := d.Sessions.Start(ctx, overseer, theirs.ID); !errdefs.Is(err, errdefs.PermissionDenied) {
		t.Errorf("an admin starts it: %v", err)
	}
	if l.count() != 0 {
		t.Errorf("who is only seen was told: %q", l.told)
	}
	must(d.Sessions.Start(ctx, inspector, theirs.ID))
	if l.count() == 0 || l.told[0] != "alice" {
		t.Errorf("told are %q", l.told)
	}
}

// What is an admin's own tells nobody, and nor do parts of the daemon.
func TestNobodyIsToldOfTheirOwn(t *testing.T) {
	l := &looks{}
	h := newHost(t)
	d := h.start(t, h.withSnapshots(t), func(o *session.Options) { o.LookIn = l.note })
	own := d.createAs(t, inspector, session.CreateRequest{})
	d.output(t, d.createAs(t, as("alice"), session.CreateRequest{}).ID, "true") // in the name of a daemon without keys
	must(d.Snapshots.Create(t.Context(), inspector, string(own.ID), snapshots.Request{}))
	if l.count() != 0 {
		t.Errorf("told are %q", l.told)
	}
}
