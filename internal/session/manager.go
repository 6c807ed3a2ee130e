package session

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session/commands"
	"github.com/sandkasten/sandkasten/internal/session/files"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
	"github.com/sandkasten/sandkasten/internal/session/workspaces"
)

// Manager is what every surface calls. It owns the rule that a session's row
// is written before its sandbox is made and outlives its removal; see Create,
// Destroy and Run. Its methods may be called concurrently.
//
// A session id that does not exist gives NotFound, a session that is not
// running gives Conflict, and before Run has adopted the sessions of an
// earlier daemon everything but Get and List gives Unavailable.
type Manager struct {
	*commands.Commands[ID] // the operations on what runs
	*files.Files[ID]       // the operations on files
	*workspaces.Workspaces
	*snapshots.Snapshots

	opts   Options
	store  Store
	driver runtime.Driver
	stops  runtime.Stopper // the driver, or nil if it cannot
	forks  runtime.Forker  // the driver, or nil if it cannot
	log    *slog.Logger
	ready  atomic.Bool

	mu     sync.Mutex
	live   map[ID]*entry    // guarded by mu; the sessions that have not ended
	byKey  map[key]*entry   // guarded by mu; those of live that have an idempotency key
	byName map[named]*entry // guarded by mu; those of live that have a name
	absent []string         // guarded by mu; see Absent
}

// key is an idempotency key; each owner has keys of his own.
type key struct{ owner, key string }

// New returns a Manager that does nothing yet: Run starts it.
func New(o Options) *Manager {
	o = o.withDefaults()
	stopper, _ := o.Driver.(runtime.Stopper)
	forker, _ := o.Driver.(runtime.Forker)
	m := &Manager{
		opts:   o,
		store:  o.Store,
		driver: o.Driver,
		stops:  stopper,
		forks:  forker,
		log:    o.Log,
		live:   make(map[ID]*entry),
		byKey:  make(map[key]*entry),
		byName: make(map[named]*entry),
	}
	m.Files = files.New(files.Options[ID]{Begin: m.beginFile, Anywhere: m.reachesAll, MaxBytes: o.Maxima.FileBytes})
	m.Commands = commands.New(commands.Options[ID]{
		Begin: m.beginCommand, Look: m.lookAtCommands, NewID: newID, IsID: isID, Path: m.RunnerPath,
		Anywhere: m.reachesAll, Timeout: o.Defaults.ExecTimeout, MaxTimeout: o.Maxima.ExecTimeout,
		KillGrace: o.KillGrace, TerminalDetach: o.TerminalDetach, OutputBytes: o.Defaults.OutputBytes,
	})
	keeper, _ := o.Driver.(runtime.WorkspaceKeeper)
	m.Workspaces = workspaces.New(o.Workspaces, workspaces.Host{
		Keeper: keeper, Ready: m.checkReady, Users: m.workspaceUsers, EndUsers: m.endUsers, NewID: newID,
		RemoveTimeout: o.DestroyTimeout, Log: o.Log,
	})
	m.Snapshots = snapshots.New(o.Snapshots, snapshots.Host{Ready: m.checkReady, Admit: o.Admit, Still: m.standStill, NewID: newID, Log: o.Log})
	return m
}

// Ready reports whether the sessions of an earlier daemon have been adopted.
func (m *Manager) Ready() bool { return m.ready.Load() }

// Drivers are those that sessions may be of, the default first.
func (m *Manager) Drivers() []string { return slices.Clone(m.opts.Drivers) }

// Survey asks the driver what there is, and notes for Absent which of several
// drivers do not answer.
func (m *Manager) Survey(ctx context.Context) (runtime.Seen, error) {
	seen, err := runtime.Survey(ctx, m.driver)
	if err != nil {
		return runtime.Seen{}, err
	}
	absent := slices.Sorted(maps.Keys(seen.Absent))
	m.mu.Lock()
	before := m.absent
	m.absent = absent
	m.mu.Unlock()
	for _, name := range absent {
		if !slices.Contains(before, name) {
			m.log.WarnContext(ctx, "a driver does not answer: its sessions wait for it", "driver", name, "err", seen.Absent[name])
		}
	}
	for _, name := range before {
		if !slices.Contains(absent, name) {
			m.log.InfoContext(ctx, "a driver answers again", "driver", name)
		}
	}
	return seen, nil
}

// Absent are those of Drivers that did not answer the last Survey. Their
// sessions keep their state, and what needs a sandbox is Unavailable.
func (m *Manager) Absent() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.absent)
}

// checkReady refuses what would change or use a sandbox before adoption.
func (m *Manager) checkReady() error {
	if m.Ready() {
		return nil
	}
	return errdefs.New(errdefs.Unavailable, "the daemon is starting and takes up its sessions; try again in a second")
}

// Get returns one session, also one that ended not long ago. Helpers it does
// not show.
func (m *Manager) Get(ctx context.Context, id ID) (Session, error) {
	s, err := m.get(ctx, id)
	if err == nil && s.Helper {
		return Session{}, ErrNoSession()
	}
	return s, err
}

// GetOwned is Get of an owner's session; "" is any owner's. One of another owner
// takes the same way as one that never was: what is known of it in memory shows
// neither in the answer nor in its time.
func (m *Manager) GetOwned(ctx context.Context, owner string, id ID) (Session, error) {
	if owner == "" {
		return m.Get(ctx, id)
	}
	if e := m.entry(id); e != nil {
		if s := e.snapshot(); s.Owner == owner && !s.Helper {
			return s, nil
		}
	}
	s, err := m.store.GetOwned(ctx, owner, id)
	if err == nil && s.Helper {
		return Session{}, ErrNoSession()
	}
	return s, err
}

// ErrNoSession is of a session that never was, or is not the caller's.
func ErrNoSession() error {
	return errdefs.New(errdefs.NotFound, "no such session; GET /v1/sessions lists those that there are").Because(errdefs.NoSuchSession)
}

func (m *Manager) get(ctx context.Context, id ID) (Session, error) {
	if e := m.entry(id); e != nil {
		return e.snapshot(), nil
	}
	return m.store.Get(ctx, id)
}

// List returns the sessions that match, oldest first.
func (m *Manager) List(ctx context.Context, filter ListFilter) ([]Session, error) {
	if !m.Ready() {
		rows, err := m.store.List(ctx, filter)
		for i, s := range rows {
			rows[i] = m.withRetention(s)
		}
		return rows, err
	}
	var found []Session
	seen := make(map[ID]bool)
	for _, e := range m.entries() {
		s := e.snapshot()
		if (filter.Owner == "" || filter.Owner == s.Owner) && (filter.Helpers || !s.Helper) {
			found = append(found, s)
			seen[s.ID] = true
		}
	}
	if filter.IncludeEnded {
		rows, err := m.store.List(ctx, filter)
		if err != nil {
			return nil, err
		}
		// What is alive is newer in memory than in its row.
		found = append(found, slices.DeleteFunc(rows, func(s Session) bool { return seen[s.ID] })...)
	}
	slices.SortFunc(found, func(a, b Session) int {
		if c := a.CreatedAt.Compare(b.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(string(a.ID), string(b.ID))
	})
	return found, nil
}

// Stats returns what a session uses now. Asking is not activity.
func (m *Manager) Stats(ctx context.Context, id ID) (runtime.Stats, error) {
	e, err := m.running(ctx, id)
	if err != nil {
		return runtime.Stats{}, err
	}
	stats, err := e.box().sandbox.Stats(ctx)
	if err != nil {
		return runtime.Stats{}, m.lost(ctx, e, errors.Join(runnerclient.ErrUnreachable, err))
	}
	return stats, nil
}

// entry returns what is known of a session that has not ended, or nil.
func (m *Manager) entry(id ID) *entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.live[id]
}

func (m *Manager) entries() []*entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]*entry, 0, len(m.live))
	for _, e := range m.live {
		all = append(all, e)
	}
	return all
}

// living returns the entry of a session that has not ended.
func (m *Manager) living(ctx context.Context, id ID) (*entry, error) {
	if err := m.checkReady(); err != nil {
		return nil, err
	}
	e := m.entry(id)
	if e == nil {
		s, err := m.store.Get(ctx, id)
		if err != nil {
			return nil, err
		}
		return nil, notRunning(s)
	}
	return e, nil
}

// running returns the entry of a session whose sandbox answers. It may be
// paused: who wants its programs to run calls use.
func (m *Manager) running(ctx context.Context, id ID) (*entry, error) {
	e, err := m.living(ctx, id)
	if err != nil {
		return nil, err
	}
	if s := e.snapshot(); !s.State.Alive() {
		return nil, notRunning(s)
	}
	if e.box().sandbox == nil { // the driver could not open it at start
		sandbox, err := m.driver.Open(ctx, e.snapshot().Sandbox)
		if err != nil {
			return nil, m.lost(ctx, e, errors.Join(runnerclient.ErrUnreachable, err))
		}
		e.open(sandbox)
	}
	return e, nil
}

// notRunning is the refusal of what s's state does not allow, with what to do
// about it.
func notRunning(s Session) error {
	switch {
	case s.State == Stopped:
		return errdefs.New(errdefs.Conflict, "session %s is stopped (%s): start it first", s.ID, s.EndReason)
	case s.EndReason != "":
		return errdefs.New(errdefs.Conflict, "session %s is %s: %s", s.ID, s.State, s.EndReason)
	}
	return errdefs.New(errdefs.Conflict, "session %s is %s, not running", s.ID, s.State)
}

// idEncoding makes ids that need no escaping anywhere.
var idEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// newID returns 26 characters that hold 128 random bits.
func newID() string {
	var random [16]byte
	rand.Read(random[:]) // never fails: crypto/rand ends the process instead
	return idEncoding.EncodeToString(random[:])
}

// isID reports whether s may have come from newID.
func isID(s string) bool {
	return len(s) == 26 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// clock is when something happened. It has a reading of the monotonic clock, so
// that a jump of the wall clock ends no session.
func clock() time.Time { return time.Now() }

// ClockSet has what is known of sessions tell times by the wall clock as it is now.
func (m *Manager) ClockSet() {
	now := clock()
	for _, e := range m.entries() {
		e.mu.Lock()
		e.s.CreatedAt, e.s.LastActivity = now.Add(e.s.CreatedAt.Sub(now)), now.Add(e.s.LastActivity.Sub(now))
		e.mu.Unlock()
	}
}
