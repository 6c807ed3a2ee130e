// Package inspections tells owners who has looked into what is theirs: an admin with
// the right to do so, and whoever has made a key or set a password of theirs. It knows
// what was done, when and by whom. Who may look is decided elsewhere.
package inspections

import (
	"context"
	"sync"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// Kept is for how long an inspection is told of.
const Kept = 400 * 24 * time.Hour

// MaxList bounds one answer.
const MaxList = 1000

// every is how often the same inspection is written: its last time is so old at most.
const every = time.Minute

// maxRemembered bounds what is known to be written.
const maxRemembered = 10_000

// Kind is what was done.
type Kind struct {
	Owner   string // whose it is
	By      string // who looked
	What    string // a session, a key, a password or an e-mail address, for people
	Session string // the id of the session; "" if it was none
	Day     string // of UTC: another day is another inspection
}

// Inspection is a Kind that happened, once or more often.
type Inspection struct {
	Kind

	First, Last time.Time
}

// Store remembers inspections. What it has written survives a crash.
type Store interface {
	// PutInspection writes one, or the last time of one that is there.
	PutInspection(ctx context.Context, i Inspection) error
	// InspectionsOf returns an owner's, the newest first, so many at most.
	InspectionsOf(ctx context.Context, owner string, limit int) ([]Inspection, error)
	// ForgetInspections forgets an owner's.
	ForgetInspections(ctx context.Context, owner string) error
}

// Inspections may be used concurrently.
type Inspections struct {
	store Store

	mu      sync.Mutex
	written map[Kind]time.Time // guarded by mu
}

// New returns the inspections of a store.
func New(store Store) *Inspections {
	return &Inspections{store: store, written: map[Kind]time.Time{}}
}

// Note writes an inspection that is about to be. An error has to keep it from being:
// nobody looks without the owner's knowing.
func (n *Inspections) Note(ctx context.Context, k Kind) error {
	now := time.Now().UTC()
	k.Day = now.Format(time.DateOnly)
	n.mu.Lock()
	last, there := n.written[k]
	n.mu.Unlock()
	if there && now.Sub(last) < every && !now.Before(last) {
		return nil
	}
	if err := n.store.PutInspection(context.WithoutCancel(ctx), Inspection{Kind: k, First: now, Last: now}); err != nil {
		return errdefs.Wrap(err, errdefs.Unavailable, "%s cannot be told now that you look into what is theirs; try again", k.Owner)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.written) >= maxRemembered {
		clear(n.written) // they are written once more
	}
	n.written[k] = now
	return nil
}

// Of returns what an owner is told of, the newest first.
func (n *Inspections) Of(ctx context.Context, owner string) ([]Inspection, error) {
	return n.store.InspectionsOf(ctx, owner, MaxList)
}

// Forget forgets what an owner was told of who is no more.
func (n *Inspections) Forget(ctx context.Context, owner string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for k := range n.written {
		if k.Owner == owner {
			delete(n.written, k)
		}
	}
	return n.store.ForgetInspections(ctx, owner)
}
