package session

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session/absence"
	"github.com/sandkasten/sandkasten/internal/session/access"
	"github.com/sandkasten/sandkasten/internal/session/execwatch"
	"github.com/sandkasten/sandkasten/internal/session/ids"
	"github.com/sandkasten/sandkasten/internal/session/laststats"
	"github.com/sandkasten/sandkasten/internal/session/networks"
	"github.com/sandkasten/sandkasten/internal/session/ops"
	"github.com/sandkasten/sandkasten/internal/session/secrets"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
	"github.com/sandkasten/sandkasten/internal/session/workspaces"
	"github.com/sandkasten/sandkasten/protocol"
)

// Manager is what every surface calls: services over one registry of live
// sessions. Their methods may be called concurrently, and each takes the
// principal in whose name it works.
//
// A session that does not exist, or is not the principal's, gives NotFound, and
// nothing tells the two apart. One that is not running gives Conflict, and before
// Run has adopted the sessions of an earlier daemon everything but Get and List
// gives Unavailable.
//
// The core owns the rule that a session's row is written before its sandbox is
// made and outlives its removal; see Sessions.Create, Sessions.Destroy and Run.
type Manager struct {
	Sessions   *Sessions
	Execs      *ops.Execs
	Files      *ops.Files
	Workspaces *workspaces.Workspaces
	Snapshots  *snapshots.Snapshots
	Networks   *networks.Networks
	Secrets    *secrets.Secrets
	Events     *Events
	Upkeep     *Upkeep

	core *core
}

// Sessions makes, changes and ends sessions.
type Sessions struct{ *core }

// Upkeep is what the daemon itself does to sessions, in the name of a principal
// that may use those of every owner.
type Upkeep struct{ *core }

// core is what the services share.
type core struct {
	*registry

	opts       Options
	driver     runtime.Driver
	stops      runtime.Stopper // the driver, or nil if it cannot
	forks      runtime.Forker  // the driver, or nil if it cannot
	workspaces *workspaces.Keeper
	snapshots  *snapshots.Keeper
	networks   *networks.Keeper
	secrets    *secrets.Keeper
	absent     absence.Drivers
	watch      *execwatch.Watch
	statAsker  *laststats.Asker
	log        *slog.Logger
}

// host is the core as the packages below see it.
type host struct{ core *core }

// CheckReady implements workspaces.Sessions and snapshots.Sessions.
func (h host) CheckReady() error { return h.core.checkReady() }

// NewID implements workspaces.Sessions and snapshots.Sessions.
func (host) NewID() string { return ids.New() }

// New returns a Manager that does nothing yet: Run starts it.
func New(o Options) *Manager {
	o = o.withDefaults()
	stopper, _ := o.Driver.(runtime.Stopper)
	forker, _ := o.Driver.(runtime.Forker)
	volumes, _ := o.Driver.(runtime.WorkspaceKeeper)
	c := &core{statAsker: laststats.New(), registry: &registry{store: o.Store, lookIn: o.LookIn, live: map[ID]*entry{}, byKey: map[key]*entry{}, byName: map[named]*entry{}}, opts: o, watch: &execwatch.Watch{Events: o.Events}, driver: o.Driver, stops: stopper, forks: forker, log: o.Log}
	c.workspaces = workspaces.New(o.Workspaces, volumes, host{c}, o.DestroyTimeout, o.Log)
	c.snapshots = snapshots.New(o.Snapshots, host{c}, o.Quotas)
	c.secrets = secrets.New(o.Secrets)
	if o.Secrets.Key != nil {
		o.Networks.Seal, o.Networks.Stored = o.Secrets.Key, c.secrets.Reveal
	}
	o.Networks.Events = o.Events
	c.networks = networks.New(o.Networks)
	execs, files := ops.New(host{c}, ops.Options{
		ExecTimeout: o.Defaults.ExecTimeout, MaxExecTimeout: o.Maxima.ExecTimeout, KillGrace: o.KillGrace, TerminalDetach: o.TerminalDetach,
		OutputBytes: o.Defaults.OutputBytes, FileBytes: o.Maxima.FileBytes, Watch: c.watch,
		OfDoor: func(session string, one protocol.Port) bool { return c.networks.OfDoor(session, one) },
	})
	return &Manager{
		Sessions: &Sessions{c}, Execs: execs, Files: files, Events: &Events{c}, Upkeep: &Upkeep{c},
		Workspaces: c.workspaces.Service(), Snapshots: c.snapshots.Service(), Networks: c.networks.Service(host{c}), Secrets: c.secrets.Service(), core: c,
	}
}

// Ready reports whether the sessions of an earlier daemon have been adopted.
func (m *Manager) Ready() bool { return m.core.ready.Load() }

// Drivers are those that sessions may be of, the default first.
func (m *Manager) Drivers() []string { return slices.Clone(m.core.opts.Drivers) }

// Absent are those of Drivers that did not answer the last survey. Their
// sessions keep their state, and what needs a sandbox is Unavailable.
func (m *Manager) Absent() []string { return m.core.absent.Names() }

// Get returns one session, also one that ended not long ago.
func (c *Sessions) Get(ctx context.Context, p auth.Principal, id ID) (Session, error) {
	_, s, err := c.known(ctx, p, id, access.See)
	return s, err
}

// Enter is Get of a session that p may use, for who is about to look into it.
func (c *Sessions) Enter(ctx context.Context, p auth.Principal, id ID) (Session, error) {
	_, s, err := c.known(ctx, p, id, access.Use)
	return s, err
}

// ListRequest selects sessions, of those that the caller may see. Owner is not looked at.
type ListRequest = ListFilter

// List returns the sessions that match, oldest first.
func (c *Sessions) List(ctx context.Context, p auth.Principal, req ListRequest) ([]Session, error) {
	filter := ListFilter{IncludeEnded: req.IncludeEnded, Helpers: req.Helpers && p.Has(auth.ScopeHelpers)}
	if !access.KnowsAll(p) {
		filter.Owner = &p.Owner
	}
	if c.checkReady() != nil {
		rows, err := c.store.List(ctx, filter)
		for i, s := range rows {
			rows[i] = c.withRetention(s)
		}
		return rows, err
	}
	var found []Session
	seen := make(map[ID]bool)
	for _, e := range c.entries() {
		if access.May(p, access.See, e.owner, e.helper) && (filter.Helpers || !e.helper) {
			found = append(found, e.snapshot())
			seen[e.id] = true
		}
	}
	if filter.IncludeEnded {
		filter.Ended = req.Ended
		rows, err := c.store.List(ctx, filter)
		if err != nil {
			return nil, err
		}
		// What is alive is newer in memory than in its row.
		found = append(found, slices.DeleteFunc(rows, func(s Session) bool { return seen[s.ID] })...)
	}
	slices.SortFunc(found, func(a, b Session) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return found, nil
}

// Stats returns what a session uses now. Asking is not activity.
func (c *Sessions) Stats(ctx context.Context, p auth.Principal, id ID) (runtime.Stats, error) {
	e, err := c.livingTo(ctx, p, id, access.See)
	if err == nil {
		err = c.reachable(ctx, e)
	}
	if err != nil {
		return runtime.Stats{}, err
	}
	stats, err := e.box().sandbox.Stats(ctx)
	if err != nil {
		return runtime.Stats{}, c.lost(ctx, e, errors.Join(runnerclient.ErrUnreachable, err))
	}
	return stats, nil
}

// LastStats returns what sessions used when they were asked last, most within seconds.
// It waits for no slow sandbox: the time of what is not known is zero. Asking is not
// activity, and a sandbox that does not answer changes nothing.
func (c *Sessions) LastStats(ctx context.Context, p auth.Principal, ids []ID) []laststats.Reading {
	subjects := make([]laststats.Subject, len(ids))
	for i, id := range ids {
		if e := c.lookup(p, id, access.See); e != nil && e.snapshot().State.Alive() {
			subjects[i] = laststats.Subject{Last: &e.lastStats, Sandbox: e.box().sandbox}
		}
	}
	return c.statAsker.Readings(ctx, subjects)
}

// notRunning is the refusal of what s's state does not allow, with what to do
// about it.
func notRunning(s Session) error {
	if s.State == Stopped {
		return errdefs.New(errdefs.Conflict, "session %s is stopped (%s): start it first", s.ID, s.EndReason)
	}
	why := cmp.Or(s.EndReason, "it does not run")
	if s.State.Ended() {
		why = s.EndedAt.UTC().Format(time.RFC3339) + ", " + why
	}
	return errdefs.New(errdefs.Conflict, "session %s is %s: %s", s.ID, s.State, why)
}

// clock is when something happened. It has a reading of the monotonic clock, so
// that a jump of the wall clock ends no session.
func clock() time.Time { return time.Now() }

// ClockSet has what is known of sessions tell times by the wall clock as it is now.
func (m *Manager) ClockSet() {
	now := clock()
	for _, e := range m.core.entries() {
		e.clockSet(now)
	}
}
