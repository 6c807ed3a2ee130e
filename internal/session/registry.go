package session

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session/access"
	"github.com/sandkasten/sandkasten/internal/session/quota"
)

// registry holds the sessions that have not ended, and is the one place that
// decides who may use which session, living or ended. It does no I/O under its
// lock.
type registry struct {
	store  Store
	lookIn access.LookIn
	ready  atomic.Bool // the sessions of an earlier daemon have been adopted

	mu     sync.Mutex
	live   map[ID]*entry    // guarded by mu
	byKey  map[key]*entry   // guarded by mu; those of live that have an idempotency key
	byName map[named]*entry // guarded by mu; those of live that have a name
	kept   quota.Kept       // guarded by mu; the workspaces that there are
}

// key is an idempotency key; each owner has keys of his own.
type key struct{ owner, key string }

// named is a session's name; each owner has names of his own.
type named struct{ owner, name string }

// checkReady refuses what would change or use a sandbox before adoption.
func (r *registry) checkReady() error {
	if r.ready.Load() {
		return nil
	}
	return errdefs.New(errdefs.Unavailable, "the daemon is starting and takes up its sessions; try again in a second")
}

// lookup returns the entry of a session that has not ended and that p may see or
// use, or nil. What of others is in memory shows neither here nor in row.
func (r *registry) lookup(p auth.Principal, id ID, need access.Need) *entry {
	e := r.entry(id)
	if e == nil || !access.May(p, need, e.owner, e.helper) {
		return nil
	}
	return e
}

// row returns the row of a session that p may see or use. That of another owner takes
// the same way as one that never was.
func (r *registry) row(ctx context.Context, p auth.Principal, id ID, need access.Need) (s Session, err error) {
	if access.KnowsAll(p) {
		s, err = r.store.Get(ctx, id)
	} else {
		s, err = r.store.GetOwned(ctx, p.Owner, id)
	}
	if err == nil && !access.May(p, need, s.Owner, s.Helper) {
		return Session{}, access.Refusal(p, s.Owner, s.Helper)
	}
	return s, err
}

// known returns a session that p may see or use, with its entry if it has not ended.
// Whose session an admin looks into is told of it before anything is done.
func (r *registry) known(ctx context.Context, p auth.Principal, id ID, need access.Need) (e *entry, s Session, err error) {
	if e = r.lookup(p, id, need); e != nil {
		s = e.snapshot()
	} else if s, err = r.row(ctx, p, id, need); err != nil {
		return nil, Session{}, err
	}
	if need == access.Use {
		err = r.lookIn.Tell(ctx, p, s.Owner, string(id))
	}
	return e, s, err
}

// ErrNoSession is of a session that never was, or is not the caller's.
func ErrNoSession() error { return access.ErrNoSession() }

// living returns the entry of a session that has not ended and that p may use.
func (r *registry) living(ctx context.Context, p auth.Principal, id ID) (*entry, error) {
	return r.livingTo(ctx, p, id, access.Use)
}

// livingTo is living of a session that p may see or use.
func (r *registry) livingTo(ctx context.Context, p auth.Principal, id ID, need access.Need) (*entry, error) {
	if err := r.checkReady(); err != nil {
		return nil, err
	}
	e, s, err := r.known(ctx, p, id, need)
	if err == nil && e == nil {
		err = notRunning(s)
	}
	return e, err
}

// entry returns what is known of a session that has not ended, or nil.
func (r *registry) entry(id ID) *entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.live[id]
}

func (r *registry) entries() []*entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.live))
}

// enter enters the entry of a new session into the live ones if limit lets it, or
// returns the one that already has its idempotency key. It is the one place where two
// creates meet.
func (r *registry) enter(e *entry, limit room) (living *entry, first bool, err error) {
	s := e.snapshot()
	r.mu.Lock()
	defer r.mu.Unlock()
	if earlier := r.byKey[key{s.Owner, s.IdempotencyKey}]; earlier != nil {
		return earlier, false, nil
	}
	if other := r.byName[named{s.Owner, s.Name}]; other != nil { // first: room is never made of it
		return nil, false, nameTaken(other.snapshot())
	}
	if err := limit.check(len(r.live), r.heldBy(s.Owner), s); err != nil {
		return nil, false, err
	}
	r.add(e)
	return e, true, nil
}

// add enters e into the live sessions. The caller holds mu.
func (r *registry) add(e *entry) {
	r.live[e.id] = e
	if e.key != "" {
		r.byKey[key{e.owner, e.key}] = e
	}
	if e.name != "" {
		r.byName[named{e.owner, e.name}] = e
	}
}

// room is how many sessions there may be at all, 0 being no maximum, and what one owner
// may have.
type room struct {
	all   int
	owner auth.Quota
}

// check refuses a session that is over the maxima beside so many live ones, and what
// there is of its owner's.
func (limit room) check(live int, there quota.Sum, s Session) error {
	if limit.all > 0 && live >= limit.all {
		return errdefs.New(errdefs.ResourceExhausted, "the daemon's maximum of %d sessions is reached; destroy one or wait for one to expire", limit.all)
	}
	return quota.CheckCreate(limit.owner, there, quota.Held{Limits: s.Limits})
}

// heldBy is what the sessions and workspaces of an owner have. The caller holds mu.
func (r *registry) heldBy(owner string) quota.Sum {
	sum := r.kept.Of(owner)
	for _, e := range r.live {
		if e.owner == owner {
			s := e.snapshot()
			sum.Add(quota.Held{Limits: s.Limits, Stopped: s.State == Stopped && !e.booting})
		}
	}
	return sum
}

// admitStart refuses to boot a stopped session over its owner's quota. One that is let
// counts as running from here on, until leave is called.
func (r *registry) admitStart(e *entry, q auth.Quota) (leave func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := quota.CheckStart(q, r.heldBy(e.owner), quota.Held{Limits: e.snapshot().Limits}); err != nil {
		return nil, err
	}
	e.booting = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		e.booting = false
	}, nil
}

// forget takes e out of the live sessions. Its row stays.
func (r *registry) forget(e *entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.live, e.id)
	e.overOnce.Do(func() { close(e.over) })
	if k := (key{e.owner, e.key}); r.byKey[k] == e {
		delete(r.byKey, k)
	}
	if n := (named{e.owner, e.name}); r.byName[n] == e {
		delete(r.byName, n)
	}
}
