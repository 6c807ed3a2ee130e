package session_test

import (
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
)

func TestANameIsOfOneSessionOfItsOwner(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	s := d.createAs(t, as("alice"), session.CreateRequest{Name: "build-7"})
	theirs := d.createAs(t, as("bob"), session.CreateRequest{Name: "build-7"})
	refused := func(req session.CreateRequest, want errdefs.Code) {
		t.Helper()
		if _, err := d.Sessions.Create(t.Context(), as("alice"), req); !errdefs.Is(err, want) {
			t.Errorf("create of %q: %v", req.Name, err)
		}
	}
	refused(session.CreateRequest{Name: "build-7"}, errdefs.AlreadyExists)
	for _, name := range []string{"a b", "-a", ".", "a/b", "a:b", string(s.ID), "\x00"} {
		refused(session.CreateRequest{Name: name}, errdefs.InvalidArgument)
	}
	lookup := func(owner, ref string, want session.ID) {
		t.Helper()
		p := as(owner)
		if owner == "" {
			p = everyone
		}
		if got, err := d.Sessions.Find(p, ref); err != nil || got != want {
			t.Errorf("%s of %s is %s, %v, not %s", ref, owner, got, err, want)
		}
	}
	lookup("alice", "build-7", s.ID)
	lookup("bob", "build-7", theirs.ID)
	lookup("carol", "build-7", "build-7")
	lookup("alice", string(s.ID), s.ID)
	lookup("alice", string(s.ID[:6]), s.ID)
	lookup("alice", string(s.ID[:2]), s.ID[:2]) // too short to mean it
	lookup("bob", string(s.ID[:6]), s.ID[:6])   // alice's
	lookup("", string(s.ID[:6]), s.ID)
	lookup("alice", "", "")
	if got, err := d.Sessions.Find(everyone, "build-7"); !errdefs.Is(err, errdefs.InvalidArgument) {
		t.Errorf("a name of two owners' sessions is %s, %v for who has all", got, err)
	}

	if fork := d.fork(t, s.ID, session.ForkRequest{Count: 1})[0]; fork.Name != "" {
		t.Errorf("a fork has the name %s", fork.Name)
	}
	d.stop()
	d = h.start(t)
	lookup("alice", "build-7", s.ID)
	if again := d.want(t, s.ID, session.Running); again.Name != "build-7" {
		t.Errorf("after a restart its name is %q", again.Name)
	}
	d.destroy(t, s.ID)
	lookup("alice", "build-7", "build-7")
	d.createAs(t, as("alice"), session.CreateRequest{Name: "build-7"})
}

func TestABeginningOfAnIDMeansOneSession(t *testing.T) {
	d := newHost(t).start(t)
	s := d.createAs(t, as("alice"), session.CreateRequest{Name: "one"})
	// A name that is the beginning of another session's id means the named one.
	named := d.createAs(t, as("alice"), session.CreateRequest{Name: string(s.ID[:5])})
	if got, err := d.Sessions.Find(as("alice"), string(s.ID[:5])); err != nil || got != named.ID {
		t.Errorf("it means %s, %v", got, err)
	}
}
