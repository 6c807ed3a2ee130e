package session_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
)

// askedStore counts how often it is asked for a session.
type askedStore struct {
	session.Store
	asked *atomic.Int64
}

func (c askedStore) Get(ctx context.Context, id session.ID) (session.Session, error) {
	c.asked.Add(1)
	return c.Store.Get(ctx, id)
}

func (c askedStore) GetOwned(ctx context.Context, owner string, id session.ID) (session.Session, error) {
	c.asked.Add(1)
	return c.Store.GetOwned(ctx, owner, id)
}

// Whether another owner's session lives, has ended or never was shows neither in
// the text of the refusal nor in the work that it takes.
func TestForeignSessionsAreAsThoseThatNeverWere(t *testing.T) {
	var asked atomic.Int64
	d := newHost(t).start(t, func(o *session.Options) { o.Store = askedStore{o.Store, &asked} })
	living, ended := d.createAs(t, as("alice"), session.CreateRequest{}), d.createAs(t, as("alice"), session.CreateRequest{})
	if err := d.Sessions.Destroy(t.Context(), everyone, ended.ID); err != nil {
		t.Fatal(err)
	}
	var first string
	for name, id := range map[string]session.ID{"living": living.ID, "ended": ended.ID, "none": "aaaaaaaaaaaaaaaaaaaaaaaaaa"} {
		asked.Store(0)
		_, err := d.Sessions.Get(t.Context(), as("bob"), id)
		wantCode(t, err, errdefs.NotFound)
		if first == "" {
			first = err.Error()
		}
		if err.Error() != first || asked.Load() != 1 {
			t.Errorf("%s: %v after %d questions to the store; another was %q after 1", name, err, asked.Load(), first)
		}
	}
	for _, owner := range []auth.Principal{as("alice"), everyone} {
		for _, id := range []session.ID{living.ID, ended.ID} {
			if s, err := d.Sessions.Get(t.Context(), owner, id); err != nil || s.ID != id {
				t.Errorf("%v: %v", owner, err)
			}
		}
	}
}
