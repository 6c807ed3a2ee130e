package snapshots

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/failpoint"
)

// Snapshots makes, keeps and restores snapshots. Its methods may be called
// concurrently.
type Snapshots struct {
	opts  Options
	host  Host
	slots *slots

	mu     sync.Mutex
	making map[string]chan struct{} // guarded by mu; by id, closed when it is made or not
	coming map[string]int           // guarded by mu; archives on their way here, by owner
}

// New returns what there is of snapshots.
func New(o Options, h Host) *Snapshots {
	o = o.withDefaults()
	return &Snapshots{opts: o, host: h, slots: newSlots(o.AtOnce, o.Patience), making: map[string]chan struct{}{}, coming: map[string]int{}}
}

// HasSnapshots reports whether there can be any.
func (m *Snapshots) HasSnapshots() bool { return m.opts.Store != nil }

// MaxArchive is how large an archive may be, in bytes.
func (m *Snapshots) MaxArchive() int64 { return m.opts.MaxBytes }

// GetSnapshot returns one of an owner's snapshots.
func (m *Snapshots) GetSnapshot(ctx context.Context, owner, id string) (Snapshot, error) {
	if !m.HasSnapshots() {
		return Snapshot{}, errNone()
	}
	s, err := m.opts.Store.GetSnapshot(ctx, owner, id)
	if err == nil && s.State != Ready {
		return Snapshot{}, errUnknown()
	}
	return s, err
}

// ListSnapshots returns the snapshots that match, oldest first.
func (m *Snapshots) ListSnapshots(ctx context.Context, f Filter) ([]Snapshot, error) {
	if !m.HasSnapshots() {
		return nil, errNone()
	}
	all, err := m.opts.Store.ListSnapshots(ctx, f.Owner)
	return slices.DeleteFunc(all, func(s Snapshot) bool {
		return s.State != Ready || f.SessionID != "" && f.SessionID != s.Manifest.SessionID || f.Name != "" && f.Name != s.Name
	}), err
}

// OpenSnapshot opens the archive of a snapshot. The caller closes it.
func (m *Snapshots) OpenSnapshot(ctx context.Context, owner, id string) (Snapshot, io.ReadCloser, error) {
	s, err := m.GetSnapshot(ctx, owner, id)
	if err != nil {
		return s, nil, err
	}
	archive, err := m.opts.Blobs.Open(ctx, s.ID, 0)
	return s, archive, err
}

// DeleteSnapshot removes a snapshot. Sessions that were made from it stay.
func (m *Snapshots) DeleteSnapshot(ctx context.Context, owner, id string) error {
	if err := m.host.Ready(); err != nil {
		return err
	}
	s, err := m.GetSnapshot(ctx, owner, id)
	if err != nil {
		return err
	}
	return m.remove(ctx, s)
}

// remove takes a snapshot out of the list, and then its archive and its row
// away. What fails of that is tried again by PruneSnapshots.
func (m *Snapshots) remove(ctx context.Context, s Snapshot) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	if s.State != Deleting {
		s.State = Deleting
		if err := m.opts.Store.PutSnapshot(ctx, s); err != nil {
			return err
		}
	}
	if err := failpoint.Hit("snapshot.deleting"); err != nil {
		return err
	}
	if err := m.opts.Blobs.Delete(ctx, s.ID); err != nil {
		return errdefs.Wrap(err, errdefs.Unavailable, "snapshot %s is not removed completely yet; the daemon goes on trying", s.ID)
	}
	if err := failpoint.Hit("snapshot.removed"); err != nil {
		return err
	}
	return m.opts.Store.DeleteSnapshot(ctx, s.ID)
}

const removeTimeout = time.Minute

// AbandonSnapshots gives up what an earlier daemon has not finished. It is
// called before anything else.
func (m *Snapshots) AbandonSnapshots(ctx context.Context) error {
	if !m.HasSnapshots() {
		return nil
	}
	return m.opts.Store.AbandonSnapshots(ctx)
}

// PruneSnapshots goes on with removals that did not finish, and removes what is
// older than the time of Retention. It says how many are gone.
func (m *Snapshots) PruneSnapshots(ctx context.Context) (removed int, err error) {
	if !m.HasSnapshots() {
		return 0, nil
	}
	all, err := m.opts.Store.ListSnapshots(ctx, "")
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, s := range all {
		old := m.opts.Retention > 0 && time.Since(s.CreatedAt) >= m.opts.Retention
		if s.State != Deleting && (s.State != Ready || !old) {
			continue
		}
		if err := m.remove(ctx, s); err != nil {
			errs = append(errs, err)
			continue
		}
		removed++
	}
	return removed, errors.Join(append(errs, m.sweep(ctx))...)
}

// sweep has Blobs swept if no archive is on its way there, which would look
// like one that a crash has left.
func (m *Snapshots) sweep(ctx context.Context) error {
	done, ok := m.slots.alone()
	if !ok {
		return nil
	}
	defer done()
	return m.opts.Blobs.Sweep(ctx)
}

func errUnknown() error {
	return errdefs.New(errdefs.NotFound, "no such snapshot; GET /v1/snapshots lists those that there are").Because(errdefs.NoSuchSnapshot)
}

func errNone() error {
	return errdefs.New(errdefs.Unimplemented, "this daemon has no snapshots: they need snapshots.enabled in its configuration")
}
