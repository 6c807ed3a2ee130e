package session

import (
	"context"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session/access"
	"github.com/sandkasten/sandkasten/internal/session/ids"
)

// nameTaken refuses a second session of s's name, with what to do about s.
func nameTaken(s Session) error {
	if s.State == Stopping && s.End != Stopped {
		return errdefs.Wrap(errdefs.ErrBeingRemoved, errdefs.Unavailable, "session %s, which has the name %s, is being removed; try again", s.ID, s.Name)
	}
	if s.State == Stopped {
		return errdefs.New(errdefs.AlreadyExists, "the name %s is session %s's, which is stopped (%s): start it to go on with its files (`sandkasten start %s`), destroy it with its files (`sandkasten rm %s`), or take another name",
			s.Name, s.ID, s.EndReason, s.Name, s.Name)
	}
	return errdefs.New(errdefs.AlreadyExists, "the name %s is session %s's; destroy that, or take another name", s.Name, s.ID)
}

// NoneCalled is the refusal of ref, which Find knows no session by: what became of the
// last session of p's that had the name, if it is known.
func (c *Sessions) NoneCalled(ctx context.Context, p auth.Principal, ref string) error {
	s, err := c.store.LastNamed(ctx, p.Owner, ref)
	if err != nil || s.Helper {
		return errdefs.New(errdefs.NotFound, "no such session: %.100q", ref).Because(errdefs.NoSuchSession)
	}
	return errdefs.New(errdefs.NotFound, "no session is called %q now; %s, which was, %s at %s: %s",
		ref, s.ID, ended(s.State), s.EndedAt.UTC().Format(time.DateTime), s.EndReason).Because(errdefs.NoSuchSession)
}

// ended is a state that is an end, as something that happened.
func ended(s State) string {
	if s == Failed || s == Crashed || s == Expired {
		return string(s)
	}
	return "was " + string(s)
}

// MinPrefix is how much of an id is enough to mean the only thing whose id begins so. Less would be a mistake more often than an abbreviation.
const MinPrefix = 3

// Find returns the id of the session that is called ref: by its name, or by the
// beginning of its id if no other session that p may use begins so. It knows those
// that have not ended. A whole id is returned as it is, whether there is such a
// session or not, and so is what is called nothing.
func (c *Sessions) Find(p auth.Principal, ref string) (ID, error) {
	if ids.Is(ref) {
		return ID(ref), nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byName[named{p.Owner, ref}]; e != nil && ref != "" {
		return e.id, nil
	}
	byName := p.OwnsAll() // to others a name is of the own sessions alone, so that no admin ends another's by it
	var found []ID
	for id, e := range c.live {
		called := byName && ref != "" && e.name == ref || len(ref) >= MinPrefix && strings.HasPrefix(string(id), ref)
		if called && access.May(p, access.See, e.owner, e.helper) {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 0:
		return ID(ref), nil
	case 1:
		return found[0], nil
	}
	return "", errdefs.Invalid("id", "is the beginning of %d sessions' ids; write more of it", len(found))
}
