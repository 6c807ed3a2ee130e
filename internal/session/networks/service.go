package networks

import (
	"context"
	"slices"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/network"
	"github.com/sandkasten/sandkasten/internal/network/relay"
	"github.com/sandkasten/sandkasten/internal/session/access"
)

// Networks is what surfaces call. A session that does not exist, or is not the
// principal's, gives NotFound.
type Networks struct {
	keeper   *Keeper
	sessions Sessions
}

// Service returns the service over a keeper, for the sessions of the core.
func (k *Keeper) Service(sessions Sessions) *Networks { return &Networks{k, sessions} }

// Default is the policy of a session that asks for nothing.
func (n *Networks) Default(auth.Principal) network.Policy { return n.keeper.Default("") }

// Get returns what a session may reach.
func (n *Networks) Get(ctx context.Context, p auth.Principal, id string) (Policy, error) {
	s, err := n.sessions.Subject(ctx, p, id, access.See)
	return s.Policy, err
}

// Set replaces what a session may reach, and returns it. It holds when Set returns:
// connections that it does not allow are cut. Of a stopped session it holds from its
// start on. When it fails the session has the policy of before.
func (n *Networks) Set(ctx context.Context, p auth.Principal, id string, asked Asked) (Policy, error) {
	held, err := n.sessions.Lock(ctx, p, id)
	if err != nil {
		return Policy{}, err
	}
	defer held.Release()
	return n.keeper.set(ctx, held, asked)
}

// Allow adds entries to what a session in mode allow may reach.
func (n *Networks) Allow(ctx context.Context, p auth.Principal, id string, entries []string) (Policy, error) {
	if _, err := n.sessions.Subject(ctx, p, id, access.Use); err != nil {
		return Policy{}, err
	}
	if len(entries) == 0 {
		return Policy{}, errdefs.Invalid("entries", "must have what to allow: hosts, addresses or groups")
	}
	held, err := n.sessions.Lock(ctx, p, id)
	if err != nil {
		return Policy{}, err
	}
	defer held.Release()
	return n.keeper.set(ctx, held, withEntries(held.Subject().Policy, entries))
}

// withEntries asks for a policy with more entries. What reaches nothing then reaches
// the entries.
func withEntries(before Policy, entries []string) Asked {
	asked := Asked{Policy: before.Policy}
	if before.Mode == network.None {
		asked.Policy.Mode = network.Allow
	}
	asked.Policy.Allow = slices.Clone(before.Allow)
	for _, entry := range entries {
		if !slices.Contains(asked.Policy.Allow, entry) {
			asked.Policy.Allow = append(asked.Policy.Allow, entry)
		}
	}
	return asked
}

// set is Set of a session that nobody else changes. It goes on when ctx is done. The
// policy is recorded before it is applied, so a daemon that dies in between comes back
// with what was asked for.
func (k *Keeper) set(ctx context.Context, held Held, asked Asked) (Policy, error) {
	ctx = context.WithoutCancel(ctx)
	s := held.Subject()
	planned, err := k.Plan(ctx, s, &asked)
	if err != nil {
		return Policy{}, err
	}
	if err := k.Keep(ctx, s.ID, planned); err != nil {
		return Policy{}, err
	}
	if err := k.apply(ctx, s, planned); err != nil {
		return Policy{}, k.restore(ctx, s, err)
	}
	held.SetPolicy(planned.Policy)
	return planned.Policy, nil
}

// restore records the policy of before a change that failed, and returns why it did.
func (k *Keeper) restore(ctx context.Context, s Subject, cause error) error {
	before, err := k.unsealed(ctx, s)
	if err == nil {
		err = k.Keep(ctx, s.ID, before)
	}
	if err != nil {
		k.opts.Log.ErrorContext(ctx, "a session's network policy is recorded and does not hold yet; its next start or use has it", "session", s.ID, "err", err)
	}
	return cause
}

// maxLog bounds the events of one answer.
const maxLog = 1000

// Log returns what was decided behind the event numbered since, oldest first. There
// is nothing of a session that never had a network.
func (n *Networks) Log(ctx context.Context, p auth.Principal, id string, since uint64, limit int) ([]relay.Event, error) {
	if _, err := n.sessions.Subject(ctx, p, id, access.Use); err != nil {
		return nil, err
	}
	log := n.keeper.log(id)
	if log == nil {
		return nil, nil
	}
	events, _, _ := log.Since(since)
	if limit <= 0 || limit > maxLog {
		limit = maxLog
	}
	return events[:min(len(events), limit)], nil
}

// Follow calls tell with what is decided behind the event numbered since, until ctx is
// done, tell fails or the session ends, which is no error. It waits where the session
// has no network now.
func (n *Networks) Follow(ctx context.Context, p auth.Principal, id string, since uint64, tell func(relay.Event) error) error {
	for {
		s, err := n.sessions.Subject(ctx, p, id, access.Use)
		if err != nil {
			return err
		}
		if s.Ended {
			return nil
		}
		if log := n.keeper.log(id); log != nil {
			if since, err = follow(ctx, log, since, tell); err != nil {
				return err
			}
		}
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lookAgain is how often Follow looks for a network that there is none of.
const lookAgain = 50 * time.Millisecond

// follow is Follow for one log, to its end.
func follow(ctx context.Context, log *relay.Journal, since uint64, tell func(relay.Event) error) (uint64, error) {
	for {
		events, changed, ended := log.Since(since)
		for _, e := range events {
			if err := tell(e); err != nil {
				return since, err
			}
			since = e.Seq
		}
		if ended {
			return since, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return since, ctx.Err()
		}
	}
}

// maxDenied bounds what is told with a command.
const maxDenied = 10

// Denied is what a session was refused since a time, newest first and without
// repetitions: for whoever wonders why a command failed.
func (n *Networks) Denied(ctx context.Context, p auth.Principal, id string, since time.Time) ([]relay.Event, error) {
	if _, err := n.sessions.Subject(ctx, p, id, access.Use); err != nil {
		return nil, err
	}
	log := n.keeper.log(id)
	if log == nil {
		return nil, nil
	}
	return log.Denied(since, maxDenied), nil
}

// Totals are what a session's network carried since it was opened, or nil if the
// session has none now.
func (n *Networks) Totals(ctx context.Context, p auth.Principal, id string) (*relay.Totals, error) {
	if _, err := n.sessions.Subject(ctx, p, id, access.See); err != nil {
		return nil, err
	}
	w := n.keeper.way(id)
	if w == nil {
		return nil, nil
	}
	totals := w.relay.Totals()
	return &totals, nil
}

// TotalsByOwner are those of all sessions since the daemon's start, for a principal
// who may use the sessions of every owner.
func (n *Networks) TotalsByOwner(p auth.Principal) (map[string]relay.Totals, error) {
	if !p.Has(auth.ScopeEveryOwner) {
		return nil, errdefs.New(errdefs.PermissionDenied, "only the daemon's own key sees what all owners use")
	}
	k := n.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make(map[string]relay.Totals, len(k.past))
	for owner, t := range k.past {
		all[owner] = t
	}
	for _, w := range k.ways {
		all[w.owner] = sum(all[w.owner], w.relay.Totals())
	}
	return all, nil
}
