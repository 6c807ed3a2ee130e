package session

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/sandkasten/sandkasten/internal/runtime"
)

// Options configures a Manager. Store, Driver and Images are required. Every
// other zero value takes the default that its comment names.
type Options struct {
	Store   Store
	Driver  runtime.Driver
	Drivers []string // that sessions may be of, the default first: runtime.Native
	Creator Creator  // the driver itself; a pool goes in front of it here

	DisksUnlimited []string // those of Drivers whose sandboxes may fill the disk; none

	// Reserved reports whether a sandbox is no session's and yet no orphan of a
	// crash: one that the pool keeps ready. It is none without it.
	Reserved func(runtime.ID) bool

	Images ImageResolver
	Log    *slog.Logger // silence

	// Admit refuses, with Unavailable, another sandbox that the host has no
	// room for. It is asked before one is made or started. Everything is
	// admitted without it.
	Admit func(ctx context.Context) error

	Defaults Defaults
	Maxima   Maxima

	Workspaces WorkspaceOptions
	Snapshots  SnapshotOptions

	FilesOutsideWorkspace bool                // file paths may leave /workspace
	Seccomp               runtime.SeccompMode // strict
	AdoptParallel         int                 // sessions checked at once at start: 32
	FlushEvery            time.Duration       // between writes of LastActivity: 15 s
	KillGrace             time.Duration       // between TERM and KILL for what is out of time: 2 s
	TerminalDetach        time.Duration       // that a terminal lives on without a client; 0 hangs up at once
	CreateTimeout         time.Duration       // for the driver to make a sandbox: 60 s
	RestoreTimeout        time.Duration       // beside that, to restore a snapshot: 30 minutes
	DestroyTimeout        time.Duration       // for the driver to remove one: 60 s
}

// Defaults are for what a request leaves out.
type Defaults struct {
	Image        string              // none: a request without an image is refused
	TTL          time.Duration       // 30 minutes
	IdleTimeout  time.Duration       // of a session to be paused or stopped: 5 minutes, or half its TTL if that is less
	ExecTimeout  time.Duration       // Maxima.ExecTimeout
	OutputBytes  int64               // of an exec that can be replayed: 1 MiB
	Limits       runtime.Limits      // 1 core, 512 MB, 256 pids, 2048 MB of disk
	Network      runtime.NetworkMode // none
	ReadonlyRoot bool
	Hostname     string // "sandbox"
}

// Maxima are what a request may ask for at most.
type Maxima struct {
	TTL              time.Duration  // 24 hours
	Lifetime         time.Duration  // of a session from its creation; 0 is no end
	ExecTimeout      time.Duration  // 10 minutes
	Limits           runtime.Limits // a zero field is Defaults' or 64 cores, 1 TB, 65536 pids, 4 TB, whichever is more
	Sessions         int            // alive at once; 0 is no maximum
	SessionsPerOwner int            // alive at once for one owner; 0 is no maximum
	SessionsOf       map[string]int // SessionsPerOwner for owners who have another one
	FileBytes        int64          // one file written: 1 GiB
}

// Creator makes sandboxes: a runtime.Driver, or the pool in front of one.
type Creator interface {
	Create(ctx context.Context, id runtime.ID, spec runtime.Spec) (runtime.Sandbox, error)
}

// ImageResolver turns the name of an image into the digest that a Spec takes.
// It refuses an image that is not allowed with PermissionDenied and one that
// does not exist with NotFound.
type ImageResolver interface {
	Resolve(ctx context.Context, name string) (digest string, err error)
}

// Store remembers sessions. What it has written survives a crash of the
// daemon from the moment the method returns, and no method takes longer than
// seconds. Env is not kept.
type Store interface {
	// Put inserts or replaces one session. It returns AlreadyExists if another
	// session of the same owner, not failed, has its idempotency key.
	Put(ctx context.Context, s Session) error
	// Get returns NotFound for an unknown id.
	Get(ctx context.Context, id ID) (Session, error)
	// FindKey returns the session of owner that was created with an
	// idempotency key and has not failed, or NotFound.
	FindKey(ctx context.Context, owner, key string) (Session, error)
	// List returns the sessions that match, oldest first.
	List(ctx context.Context, filter ListFilter) ([]Session, error)
	// Touch records activity on sessions that exist, all in one transaction.
	Touch(ctx context.Context, activity []Activity) error
	// Prune forgets the sessions that ended before a time and says how many.
	Prune(ctx context.Context, endedBefore time.Time) (int64, error)
}

// Activity is the part of a session that changes with use. It is written in
// batches, so that an exec costs no write to disk.
type Activity struct {
	ID  ID
	At  time.Time
	Cwd string
}

// ListFilter selects sessions. Its zero value selects all that have not ended.
type ListFilter struct {
	Owner        string // "" is every owner
	IncludeEnded bool
	Helpers      bool // also the hidden sessions behind file calls of workspaces
}

func (o Options) withDefaults() Options {
	if o.Creator == nil {
		o.Creator = o.Driver
	}
	if len(o.Drivers) == 0 {
		o.Drivers = []string{runtime.Native}
	}
	if o.Reserved == nil {
		o.Reserved = func(runtime.ID) bool { return false }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Admit == nil {
		o.Admit = func(context.Context) error { return nil }
	}
	o.Seccomp = cmp.Or(o.Seccomp, runtime.SeccompStrict)
	o.AdoptParallel = cmp.Or(o.AdoptParallel, 32)
	o.FlushEvery = cmp.Or(o.FlushEvery, 15*time.Second)
	o.KillGrace = cmp.Or(o.KillGrace, 2*time.Second)
	o.CreateTimeout = cmp.Or(o.CreateTimeout, time.Minute)
	o.RestoreTimeout = cmp.Or(o.RestoreTimeout, 30*time.Minute)
	o.DestroyTimeout = cmp.Or(o.DestroyTimeout, time.Minute)
	o.Maxima = o.Maxima.withDefaults(o.Defaults)
	o.Defaults = o.Defaults.withDefaults(o.Maxima)
	return o
}

func (x Maxima) withDefaults(d Defaults) Maxima {
	x.TTL = cmp.Or(x.TTL, max(24*time.Hour, d.TTL))
	x.ExecTimeout = cmp.Or(x.ExecTimeout, max(10*time.Minute, d.ExecTimeout))
	x.FileBytes = cmp.Or(x.FileBytes, 1<<30)
	x.Limits.CPU = cmp.Or(x.Limits.CPU, max(64, d.Limits.CPU))
	x.Limits.MemoryMB = cmp.Or(x.Limits.MemoryMB, max(1<<20, d.Limits.MemoryMB))
	x.Limits.Pids = cmp.Or(x.Limits.Pids, max(65536, d.Limits.Pids))
	x.Limits.DiskMB = cmp.Or(x.Limits.DiskMB, max(4<<20, d.Limits.DiskMB))
	return x
}

func (d Defaults) withDefaults(x Maxima) Defaults {
	d.TTL = cmp.Or(d.TTL, min(30*time.Minute, x.TTL))
	d.IdleTimeout = cmp.Or(d.IdleTimeout, 5*time.Minute)
	d.ExecTimeout = cmp.Or(d.ExecTimeout, x.ExecTimeout)
	d.OutputBytes = cmp.Or(d.OutputBytes, 1<<20)
	d.Network = cmp.Or(d.Network, runtime.NetworkNone)
	d.Hostname = cmp.Or(d.Hostname, "sandbox")
	d.Limits.CPU = cmp.Or(d.Limits.CPU, min(1, x.Limits.CPU))
	d.Limits.MemoryMB = cmp.Or(d.Limits.MemoryMB, min(512, x.Limits.MemoryMB))
	d.Limits.Pids = cmp.Or(d.Limits.Pids, min(256, x.Limits.Pids))
	d.Limits.DiskMB = cmp.Or(d.Limits.DiskMB, min(2048, x.Limits.DiskMB))
	return d
}
