package session

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session/quota"
)

// OnExpiry is what happens to a session that nothing has used for its TTL. The
// strings are part of the API.
type OnExpiry string

// What may happen to such a session.
const (
	OnExpiryStop    OnExpiry = "stop"
	OnExpiryDestroy OnExpiry = "destroy"
)

// onExpiry is for a session that asks for nothing: somebody means to come back to
// one that has a name.
func (d Defaults) onExpiry(name string) OnExpiry {
	if d.OnExpiry == "" && name != "" {
		return OnExpiryStop
	}
	return cmp.Or(d.OnExpiry, OnExpiryDestroy)
}

// checkOnExpiry refuses what is none. To stop where the driver cannot is no mistake:
// the session says that it is destroyed.
func checkOnExpiry(what OnExpiry) error {
	if !slices.Contains([]OnExpiry{"", OnExpiryStop, OnExpiryDestroy}, what) {
		return errdefs.Invalid("on_expiry", "must be stop or destroy")
	}
	return nil
}

// expiry is the end of a session whose time is up at now, if that is so.
func (s Session) expiry(now time.Time) (State, string) {
	destroyed := s.OnIdle == OnIdleDestroy && s.IdleTimeout > 0 // when it was idle, which it asked for
	switch {
	case !s.State.settled() || now.Before(s.ExpiresAt()):
		return "", ""
	case s.MaxLifetime > 0 && !now.Before(s.CreatedAt.Add(s.MaxLifetime)):
		return Expired, "it reached its maximum lifetime of " + s.MaxLifetime.String()
	case s.State == Stopped:
		return Expired, "it was stopped for " + s.ExpiresAt().Sub(s.LastActivity).String()
	case s.OnExpiry == OnExpiryStop && !destroyed:
		return Stopped, idleFor(s.TTL)
	default:
		return Expired, idleFor(s.ExpiresAt().Sub(s.LastActivity))
	}
}

// spare reports whether a session makes room for others of its owner.
func (s Session) spare() bool { return s.State == Stopped && !s.ByHand }

// claim enters a session into the live ones, or returns the entry that has its
// idempotency key. Where it is over limit, spare sessions of its owner end for it, if
// they make enough room and it is possible else.
func (c *core) claim(ctx context.Context, made *entry, limit room, possible func(context.Context) error) (*entry, bool, error) {
	s := made.snapshot()
	for {
		e, first, err := c.enter(made, limit)
		if err == nil || errdefs.Is(err, errdefs.AlreadyExists) || errdefs.Is(err, errdefs.Unavailable) {
			return e, first, err // whose name is taken needs no room
		}
		if impossible := possible(ctx); impossible != nil {
			return nil, false, impossible
		}
		fits := func(live int, sum quota.Sum) bool { return limit.check(live, sum, s) == nil }
		if !c.makeRoom(ctx, s.Owner, anywhere, fits, err) {
			return nil, false, err
		}
	}
}

// admit asks for room for a session on the host. Where the disk is short, one spare
// session of its owner ends for it. No more do: it may be another owner who fills the disk.
func (c *core) admit(ctx context.Context, s Session) error {
	for ended := false; ; ended = true {
		asking, cancel := context.WithCancel(ctx)
		err := c.opts.Admit(asking, s.admission())
		if err == nil {
			context.AfterFunc(ctx, cancel) // it is under way for as long
			return nil
		}
		cancel()
		short := errors.Is(err, errdefs.ErrDiskShort) || errdefs.Is(err, errdefs.InsufficientSpace)
		if !short || ended || !c.makeRoom(ctx, s.Owner, c.besides(s), nil, err) {
			return err
		}
		c.opts.Freed()
	}
}

// makeRoom ends as few spare sessions of an owner as it takes to fit, or one if fits is
// nil, those first that were stopped first. It reports whether there is more room than
// before, and ends none if all are not enough. Only those count that place takes. Who
// else ends one, or starts it, has its lock, and counts on its room.
func (c *core) makeRoom(ctx context.Context, owner string, place func(Session) bool, fits func(live int, sum quota.Sum) bool, short error) (made bool) {
	taken, enough := c.takeSpare(c.spareOf(ctx, owner, place), owner, fits)
	made = enough && len(taken) == 0
	for _, e := range taken {
		if enough {
			c.log.InfoContext(ctx, "a stopped session ends to make room for another of its owner", "session", e.id, "owner", owner, "short", short)
			err := c.end(ctx, e, as(Expired, "it was stopped, and another session needed its room: "+errdefs.MessageOf(short)))
			if made = made || err == nil; err != nil {
				c.log.ErrorContext(ctx, "a stopped session has not made room yet", "session", e.id, "err", err)
			}
		}
		e.Release()
	}
	return made
}

// anywhere is for what counts wherever a session's files are.
func anywhere(Session) bool { return true }

// besides reports which sessions have their files where those of s will be.
func (c *core) besides(s Session) func(Session) bool {
	return func(other Session) bool {
		return other.Driver() == s.Driver() || !c.opts.Remote(other.Driver()) && !c.opts.Remote(s.Driver())
	}
}

// spareOf returns an owner's spare sessions that place takes, those first that were
// stopped first.
func (c *core) spareOf(ctx context.Context, owner string, place func(Session) bool) []*entry {
	spare := make(map[*entry]time.Time)
	var all []*entry
	for _, e := range c.entries() {
		if s := e.snapshot(); e.owner == owner && s.spare() && place(s) && !c.opts.Held(ctx, e.id) {
			spare[e] = s.LastActivity
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b *entry) int { return cmp.Or(spare[a].Compare(spare[b]), cmp.Compare(a.id, b.id)) })
	return all
}

// takeSpare locks the first of these sessions, as many as have to end to fit, and
// reports whether they are enough.
func (r *registry) takeSpare(all []*entry, owner string, fits func(live int, sum quota.Sum) bool) (taken []*entry, enough bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	live, sum := len(r.live), r.heldBy(owner)
	enough = fits != nil && fits(live, sum)
	for i := 0; i < len(all) && !enough; i++ {
		e := all[i]
		if !e.TryAcquire() {
			continue
		}
		s := e.snapshot()
		if !s.spare() { // it was started or kept meanwhile
			e.Release()
			continue
		}
		taken = append(taken, e)
		live--
		sum.Remove(quota.Held{Limits: s.Limits, Stopped: true})
		enough = fits == nil || fits(live, sum)
	}
	return taken, enough
}
