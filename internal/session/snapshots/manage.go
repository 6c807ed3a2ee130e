package snapshots

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/failpoint"
)

// Keeper makes, keeps and restores snapshots. Its methods are for the core;
// clients have its Service. They may be called concurrently.
type Keeper struct {
	opts     Options
	sessions Sessions
	quotas   auth.Quotas
	slots    *slots

	mu     sync.Mutex
	making map[string]chan struct{} // guarded by mu; by id, closed when it is made or not
	coming map[string]int           // guarded by mu; archives on their way here, by owner
}

// New returns what there is of snapshots.
func New(o Options, sessions Sessions, quotas auth.Quotas) *Keeper {
	o = o.withDefaults()
	return &Keeper{
		opts: o, sessions: sessions, quotas: quotas, slots: newSlots(o.AtOnce, o.Patience),
		making: map[string]chan struct{}{}, coming: map[string]int{},
	}
}

// Service is what clients may do with the snapshots of k.
func (k *Keeper) Service() *Snapshots { return &Snapshots{k} }

// Snapshots is what clients do with snapshots. Each principal knows those of its
// owner; to every other one they do not exist.
type Snapshots struct{ keeper *Keeper }

func (k *Keeper) hasSnapshots() bool { return k.opts.Store != nil }

// Enabled reports whether there can be any.
func (s *Snapshots) Enabled() bool { return s.keeper.hasSnapshots() }

// MaxArchive is how large an archive may be, in bytes.
func (s *Snapshots) MaxArchive() int64 { return s.keeper.opts.MaxBytes }

// Get returns one snapshot.
func (s *Snapshots) Get(ctx context.Context, p auth.Principal, id string) (Snapshot, error) {
	return s.keeper.Get(ctx, p.Owner, id)
}

// Get returns one of an owner's snapshots.
func (k *Keeper) Get(ctx context.Context, owner, id string) (Snapshot, error) {
	if !k.hasSnapshots() {
		return Snapshot{}, errNone()
	}
	s, err := k.opts.Store.GetSnapshot(ctx, owner, id)
	if err == nil && s.State != Ready {
		return Snapshot{}, errUnknown()
	}
	return s, err
}

// List returns the principal's snapshots that match, oldest first.
func (s *Snapshots) List(ctx context.Context, p auth.Principal, f Filter) ([]Snapshot, error) {
	all, err := s.keeper.matching(ctx, p, f)
	return slices.DeleteFunc(all, func(s Snapshot) bool {
		return s.State != Ready || f.SessionID != "" && f.SessionID != s.Manifest.SessionID || f.Name != "" && f.Name != s.Name
	}), err
}

// matching are rows that p may know of, with all that f selects among them.
func (k *Keeper) matching(ctx context.Context, p auth.Principal, f Filter) ([]Snapshot, error) {
	if f.Name == "" || !k.hasSnapshots() || p.Has(auth.ScopeEveryOwner) {
		return k.rowsOf(ctx, p)
	}
	return k.opts.Store.SnapshotsNamed(ctx, p.Owner, f.Name)
}

// rowsOf are the rows that p may know of, in whatever state.
func (k *Keeper) rowsOf(ctx context.Context, p auth.Principal) ([]Snapshot, error) {
	switch {
	case !k.hasSnapshots():
		return nil, errNone()
	case p.Has(auth.ScopeEveryOwner):
		return k.opts.Store.AllSnapshots(ctx)
	}
	return k.opts.Store.SnapshotsOf(ctx, p.Owner)
}

// Open opens the archive of a snapshot. The caller closes it.
func (s *Snapshots) Open(ctx context.Context, p auth.Principal, id string) (Snapshot, io.ReadCloser, error) {
	found, err := s.Get(ctx, p, id)
	if err != nil {
		return found, nil, err
	}
	archive, err := s.keeper.opts.Blobs.Open(ctx, found.Key(), 0)
	return found, archive, err
}

// Delete removes a snapshot. Sessions that were made from it stay.
func (s *Snapshots) Delete(ctx context.Context, p auth.Principal, id string) error {
	if err := s.keeper.sessions.CheckReady(); err != nil {
		return err
	}
	found, err := s.Get(ctx, p, id)
	if err != nil {
		return err
	}
	return s.keeper.remove(ctx, found)
}

// remove takes a snapshot out of the list, and then its archive and its row
// away. What fails of that is tried again by Prune.
func (k *Keeper) remove(ctx context.Context, s Snapshot) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	if s.State != Deleting {
		s.State = Deleting
		if err := k.opts.Store.PutSnapshot(ctx, s); err != nil {
			return err
		}
	}
	if err := failpoint.Hit("snapshot.deleting"); err != nil {
		return err
	}
	if err := k.opts.Blobs.Delete(ctx, s.Key()); err != nil {
		return errdefs.Wrap(err, errdefs.Unavailable, "snapshot %s is not removed completely yet; the daemon goes on trying", s.ID)
	}
	if err := failpoint.Hit("snapshot.removed"); err != nil {
		return err
	}
	return k.opts.Store.DeleteSnapshot(ctx, s.ID)
}

const removeTimeout = time.Minute

// Abandon gives up what an earlier daemon has not finished. It is
// called before anything else.
func (k *Keeper) Abandon(ctx context.Context) error {
	if !k.hasSnapshots() {
		return nil
	}
	return k.opts.Store.AbandonSnapshots(ctx)
}

// Prune goes on with removals that did not finish, and removes what is
// older than the time of Retention. It says how many are gone.
func (k *Keeper) Prune(ctx context.Context) (removed int, err error) {
	if !k.hasSnapshots() {
		return 0, nil
	}
	all, err := k.opts.Store.AllSnapshots(ctx)
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, s := range all {
		old := k.opts.Retention > 0 && time.Since(s.CreatedAt) >= k.opts.Retention
		if s.State != Deleting && (s.State != Ready || !old) {
			continue
		}
		if err := k.remove(ctx, s); err != nil {
			errs = append(errs, err)
			continue
		}
		removed++
	}
	return removed, errors.Join(append(errs, k.sweep(ctx))...)
}

// sweep has Blobs swept if no archive is on its way there, which would look
// like one that a crash has left.
func (k *Keeper) sweep(ctx context.Context) error {
	done, ok := k.slots.alone()
	if !ok {
		return nil
	}
	defer done()
	return k.opts.Blobs.Sweep(ctx)
}

func errUnknown() error {
	return errdefs.New(errdefs.NotFound, "no such snapshot").Because(errdefs.NoSuchSnapshot)
}

func errNone() error {
	return errdefs.New(errdefs.Unimplemented, "this daemon has no snapshots: they need snapshots.enabled in its configuration")
}
