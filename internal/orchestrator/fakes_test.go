package orchestrator_test

import (
	"context"
	"encoding/base32"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/orchestrator"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
)

// fakeStore keeps rows in memory.
type fakeStore struct {
	mu     sync.Mutex
	rows   map[string]orchestrator.Session
	writes int
	broken error // of SeeOrchestrated
}

func (f *fakeStore) PutOrchestrated(_ context.Context, x orchestrator.Session) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	x.BadSnapshots = slices.Clone(x.BadSnapshots)
	f.rows[x.ID] = x
	f.writes++
	return nil
}

func (f *fakeStore) GetOrchestrated(_ context.Context, ref string) (orchestrator.Session, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.rows {
		if x.ID == ref || string(x.Core) == ref && ref != "" {
			return x, nil
		}
	}
	return orchestrator.Session{}, errdefs.New(errdefs.NotFound, "no row")
}

func (f *fakeStore) OrchestratedOf(_ context.Context, owner *string) ([]orchestrator.Session, error) {
	return f.matching(func(x orchestrator.Session) bool { return owner == nil || x.Owner == *owner }), nil
}

func (f *fakeStore) LiveOrchestrated(context.Context) ([]orchestrator.Session, error) {
	return f.matching(func(x orchestrator.Session) bool {
		return x.Status == orchestrator.Starting || x.Status == orchestrator.Ready || x.Unsaved()
	}), nil
}

func (f *fakeStore) EndedOrchestrated(_ context.Context, before time.Time) (ids []string, _ error) {
	for _, x := range f.matching(func(x orchestrator.Session) bool {
		return (x.Status == orchestrator.Terminated || x.Status == orchestrator.Failed) && !x.Unsaved() && x.UpdatedAt.Before(before)
	}) {
		ids = append(ids, x.ID)
	}
	return ids, nil
}

// EmptyOrchestrated leaves it to the service to look for snapshots.
func (f *fakeStore) EmptyOrchestrated(ctx context.Context, before time.Time) ([]string, error) {
	return f.EndedOrchestrated(ctx, before)
}

func (f *fakeStore) DeleteOrchestrated(_ context.Context, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.rows, id)
	return nil
}

func (f *fakeStore) matching(want func(orchestrator.Session) bool) (found []orchestrator.Session) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.rows {
		if want(x) {
			found = append(found, x)
		}
	}
	slices.SortFunc(found, func(a, b orchestrator.Session) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return found
}

func (f *fakeStore) SeeOrchestrated(_ context.Context, seen []orchestrator.Seen) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken != nil {
		return f.broken
	}
	f.writes++
	for _, one := range seen {
		if x, known := f.rows[one.ID]; known {
			x.LastHeartbeat = one.Heartbeat
			if !one.Activity.IsZero() {
				x.LastActivity = one.Activity
			}
			f.rows[one.ID] = x
		}
	}
	return nil
}

// fakeSession is a session of the fake core: its files are a map.
type fakeSession struct {
	session.Session

	files map[string]string
}

// fakeCore makes sessions and snapshots of maps.
type fakeCore struct {
	mu        sync.Mutex
	sessions  map[session.ID]*fakeSession
	snapshots []snapshots.Snapshot
	archives  map[string]map[string]string // by the id of a snapshot; none is a lost one
	made      int
	slow      time.Duration // that a create takes
	full      error         // of every create
	unpacking error         // of every create that restores
	stays     error         // of every start
	unsaved   error         // of every snapshot
	goesOn    error         // of every stop
	closed    bool          // the files of what is stopped cannot be read
	beats     int
	ended     func(session.ID) // called when one has ended, before Destroy returns; or nil
	saved     func()           // called when a snapshot is taken, before Create returns; or nil
}

// loseNewest loses the newest archive that there is.
func (f *fakeCore) loseNewest() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range slices.Backward(f.snapshots) {
		if _, kept := f.archives[one.ID]; kept {
			delete(f.archives, one.ID)
			return
		}
	}
}

func (f *fakeCore) id() string {
	f.made++
	return base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding).EncodeToString(fmt.Appendf(nil, "%016d", f.made))
}

func (f *fakeCore) Create(ctx context.Context, p auth.Principal, req session.CreateRequest) (session.Session, error) {
	pass(f.slow)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.full != nil {
		return session.Session{}, f.full
	}
	for _, other := range f.sessions {
		if other.Name == req.Name && other.Owner == p.Owner && !other.State.Ended() {
			if other.State == session.Stopping && other.End != session.Stopped {
				return session.Session{}, errdefs.Wrap(errdefs.ErrBeingRemoved, errdefs.Unavailable, "the name is not free yet")
			}
			return session.Session{}, errdefs.New(errdefs.AlreadyExists, "the name is taken")
		}
	}
	files := map[string]string{}
	if req.RestoreSnapshotID != "" && f.unpacking != nil {
		return session.Session{}, f.unpacking
	}
	if req.RestoreSnapshotID != "" {
		saved, kept := f.archives[req.RestoreSnapshotID]
		if !kept {
			err := errdefs.Wrap(snapshots.ErrBadArchive, errdefs.Unprocessable, "the archive is lost")
			err.Field = "restore_snapshot_id"
			return session.Session{}, err
		}
		files = maps.Clone(saved)
	}
	x := &fakeSession{session.Session{ID: session.ID(f.id()), Name: req.Name, Owner: p.Owner, State: session.Running, Image: req.Image, Limits: req.Limits, OnExpiry: req.OnExpiry}, files}
	f.sessions[x.ID] = x
	return x.Session, ctx.Err()
}

func (f *fakeCore) known(p auth.Principal, id session.ID) (*fakeSession, error) {
	x := f.sessions[id]
	if x == nil || x.Owner != p.Owner {
		return nil, errdefs.New(errdefs.NotFound, "no such session")
	}
	return x, nil
}

func (f *fakeCore) Get(_ context.Context, p auth.Principal, id session.ID) (session.Session, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	x, err := f.known(p, id)
	if err != nil {
		return session.Session{}, err
	}
	return x.Session, nil
}

func (f *fakeCore) set(p auth.Principal, id session.ID, state session.State) (session.Session, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	x, err := f.known(p, id)
	if err != nil {
		return session.Session{}, err
	}
	x.State = state
	return x.Session, nil
}

func (f *fakeCore) Start(_ context.Context, p auth.Principal, id session.ID) (session.Session, error) {
	if f.stays != nil {
		return session.Session{}, f.stays
	}
	return f.set(p, id, session.Running)
}

func (f *fakeCore) Stop(_ context.Context, p auth.Principal, id session.ID) (session.Session, error) {
	if f.goesOn != nil {
		return session.Session{}, f.goesOn
	}
	return f.set(p, id, session.Stopped)
}

func (f *fakeCore) Pause(_ context.Context, p auth.Principal, id session.ID, _ session.Memory) (session.Session, error) {
	return f.set(p, id, session.Paused)
}

func (f *fakeCore) Resume(_ context.Context, p auth.Principal, id session.ID) (session.Session, error) {
	return f.set(p, id, session.Running)
}

func (f *fakeCore) Destroy(_ context.Context, p auth.Principal, id session.ID) error {
	_, err := f.set(p, id, session.Destroyed)
	if f.ended != nil {
		f.ended(id)
	}
	return err
}

func (f *fakeCore) Heartbeat(ctx context.Context, p auth.Principal, id session.ID) (session.Session, error) {
	f.mu.Lock()
	f.beats++
	f.mu.Unlock()
	return f.Get(ctx, p, id)
}

func (f *fakeCore) Find(p auth.Principal, ref string) (session.ID, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.sessions {
		if x.Name == ref && x.Owner == p.Owner && !x.State.Ended() {
			return x.ID, nil
		}
	}
	return session.ID(ref), nil
}

func (*fakeCore) Stats(context.Context, auth.Principal, session.ID) (runtime.Stats, error) {
	return runtime.Stats{CPUUsageUsec: 1_500_000, DiskBytes: 4096}, nil
}

func (*fakeCore) Limits(auth.Principal) (session.Defaults, session.Maxima, auth.Quota) {
	return session.Defaults{}, session.Maxima{TTL: 24 * time.Hour, Lifetime: 7 * 24 * time.Hour}, auth.Quota{}
}

// write changes a file of the session that a row runs in.
func (f *fakeCore) write(t *testing.T, x orchestrator.Session, name, text string) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	found := f.sessions[x.Core]
	if found == nil || !found.State.Alive() {
		t.Fatalf("%s does not run in %q", x.ID, x.Core)
	}
	found.files[name] = text
}

func (f *fakeCore) read(x orchestrator.Session, name string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sessions[x.Core].files[name]
}

func (f *fakeCore) alive() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.sessions {
		if x.State.Alive() {
			n++
		}
	}
	return n
}

// there counts the sessions that have files.
func (f *fakeCore) there() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.sessions {
		if !x.State.Ended() {
			n++
		}
	}
	return n
}

// fakeSnapshots are those of a fakeCore.
type fakeSnapshots struct{ *fakeCore }

func (fakeSnapshots) Enabled() bool { return true }

func (f fakeSnapshots) Create(_ context.Context, p auth.Principal, id string, req snapshots.Request) (snapshots.Snapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	x, err := f.known(p, session.ID(id))
	if err == nil && f.closed && x.State == session.Stopped {
		return snapshots.Snapshot{}, errdefs.New(errdefs.Unimplemented, "start it first")
	}
	if f.unsaved != nil || err != nil || !x.State.Alive() && x.State != session.Stopped {
		return snapshots.Snapshot{}, errdefs.Wrap(err, errdefs.InsufficientSpace, "no room")
	}
	made := snapshots.Snapshot{ID: f.id(), Owner: p.Owner, Name: req.Name, Label: req.Label, CreatedAt: time.Now()}
	f.snapshots = append(f.snapshots, made)
	f.archives[made.ID] = maps.Clone(x.files)
	if f.saved != nil {
		f.mu.Unlock()
		f.saved()
		f.mu.Lock()
	}
	return made, nil
}

func (f fakeSnapshots) List(_ context.Context, p auth.Principal, filter snapshots.Filter) ([]snapshots.Snapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.snapshots), func(s snapshots.Snapshot) bool {
		return s.Owner != p.Owner || filter.Name != "" && s.Name != filter.Name
	}), nil
}

func (f fakeSnapshots) Get(_ context.Context, p auth.Principal, id string) (snapshots.Snapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.snapshots {
		if s.ID == id && s.Owner == p.Owner {
			return s, nil
		}
	}
	return snapshots.Snapshot{}, errdefs.New(errdefs.NotFound, "no such snapshot").Because(errdefs.NoSuchSnapshot)
}

func (f fakeSnapshots) Delete(_ context.Context, _ auth.Principal, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.snapshots = slices.DeleteFunc(f.snapshots, func(s snapshots.Snapshot) bool { return s.ID == id })
	return nil
}
