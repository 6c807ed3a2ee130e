package session

import (
	"context"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/events"
	"github.com/sandkasten/sandkasten/internal/session/access"
)

// Events is what happens to sessions and the rest, for those who may know of it.
type Events struct{ *core }

// Subscribe returns a subscription of what p may see: what its owner has, or every
// owner, and what is the daemon's only with that scope. With an id it is of what
// happens to that session. The caller closes it.
func (c *Events) Subscribe(ctx context.Context, p auth.Principal, id ID, req events.Request) (*events.Subscription, error) {
	rights := events.Rights{Owner: p.Owner, EveryOwner: access.KnowsAll(p), Closed: p.Has(auth.ScopeOversee), Daemon: p.Has(auth.ScopeDaemon)}
	if id != "" {
		if _, _, err := c.known(ctx, p, id, access.ToWatch(p)); err != nil {
			return nil, err
		}
		rights.Closed = rights.Closed && access.ToWatch(p) == access.See
	}
	req.Session = string(id)
	return c.opts.Events.SubscribeFor(rights, req)
}

// Event is the Data of events about a session: how it is now, and of
// events.SessionState its state before.
type Event struct {
	Session Session
	Before  State
}

// tell publishes what e has become. The caller holds mu.
func (e *entry) tell(before Session) {
	now := e.record.session
	if e.events == nil || !e.known && now.State.Ended() {
		return // nobody heard of it
	}
	event := events.Event{Type: events.SessionChanged, Owner: e.owner, Session: string(e.id)}
	told := Event{Session: now}
	told.Session.Env, told.Session.IdempotencyKey, told.Session.RequestHash = nil, "", "" // which nobody is shown
	switch {
	case !e.known:
		event.Type, e.known = events.SessionCreated, true
	case now.State.Ended():
		event.Type, told.Before = events.SessionEnded, before.State
	case now.State != before.State:
		event.Type, told.Before = events.SessionState, before.State
	}
	event.Data, event.Size = told, sizeOf(now)
	e.events.Publish(event)
}

// sizeOf is about how much memory the variable parts of s take.
func sizeOf(s Session) int {
	n := 1024 + len(s.Name) + len(s.Image) + len(s.EndReason) + s.NetworkPolicy.Size()
	for key, value := range s.Labels {
		n += len(key) + len(value) + 32
	}
	return n
}
