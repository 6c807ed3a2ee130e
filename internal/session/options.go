package session

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/events"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session/access"
	"github.com/sandkasten/sandkasten/internal/session/networks"
	"github.com/sandkasten/sandkasten/internal/session/secrets"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
	"github.com/sandkasten/sandkasten/internal/session/workspaces"
)

// Options configures a Manager. Store, Driver and Images are required. Every
// other zero value takes the default that its comment names.
type Options struct {
	Store   Store
	Driver  runtime.Driver
	Drivers []string // that sessions may be of, the default first: the one that ids need not name
	Creator Creator  // the driver itself; a pool goes in front of it here

	// WorkspaceDriver is which of Drivers has the workspaces: the default driver.
	WorkspaceDriver string

	// DiskLimited reports whether one of Drivers holds a limit of what a sandbox
	// writes; nil is that all do.
	DiskLimited func(driver string, readonlyRoot bool) bool

	// Reserved reports whether a sandbox is no session's and yet no orphan of a
	// crash: one that the pool keeps ready. It is none without it.
	Reserved func(runtime.ID) bool

	Images ImageResolver

	// ImagesOf returns what resolves the images of a driver's sessions; nil is Images
	// for all.
	ImagesOf func(driver string) ImageResolver

	// FetchImage gets the image of each new session before Images is asked: it
	// may bring what a driver's own store has, which may take minutes. Nil brings
	// nothing.
	FetchImage func(context.Context, ImageFetch) error
	Log        *slog.Logger // silence

	// Held reports whether a session does not end when its time is up, for somebody else
	// saves it first and then ends it; nil holds none.
	Held func(context.Context, ID) bool

	// Admit refuses another sandbox that there is no room for, or whose owner has used
	// up what a month has. It is asked before one is made or started, with a context
	// that ends when that is done. Everything is admitted without it.
	Admit func(ctx context.Context, a Admission) error

	// Remote reports whether the sandboxes of one of Drivers are elsewhere than on this
	// host, so that neither frees the other's disk; nil is that none are.
	Remote func(driver string) bool

	Freed func() // called when a session has ended because Admit found the disk short, before it is asked again; nothing

	LookIn access.LookIn // tells owners who looks into what they have; nil tells nobody

	Events *events.Hub // takes what happens to sessions and in them; nil takes none

	Settled func() // called once the sessions of an earlier daemon have been adopted; nothing

	Defaults Defaults
	Maxima   Maxima
	Quotas   auth.Quotas // asked at every use; no limits

	Workspaces workspaces.WorkspaceOptions
	Snapshots  snapshots.Options
	Networks   networks.Options
	Secrets    secrets.Options

	FilesOutsideWorkspace bool                 // file paths may leave /workspace, where neither session nor owner says otherwise
	FileScopeOf           map[string]FileScope // of owners who have one of their own
	Seccomp               runtime.SeccompMode  // strict
	AdoptParallel         int                  // sessions checked at once at start: 32
	FlushEvery            time.Duration        // between writes of LastActivity: 15 s
	KillGrace             time.Duration        // between TERM and KILL for what is out of time: 2 s
	TerminalDetach        time.Duration        // that a terminal lives on without a client; 0 hangs up at once
	CreateTimeout         time.Duration        // for the driver to make a sandbox: 60 s
	RestoreTimeout        time.Duration        // beside that, to restore a snapshot: 30 minutes
	DestroyTimeout        time.Duration        // for the driver to remove one: 60 s
}

// Admission is what Admit is asked for.
type Admission struct {
	Owner  string // who pays for it; "" is nobody
	Driver string // of the sandbox; "" is the archive of a snapshot, on this host
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

// ImageFetch is an image that a new session names.
type ImageFetch struct {
	Owner, Driver, Image string
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
	// GetOwned is Get of an owner's session: that of another is NotFound too.
	GetOwned(ctx context.Context, owner string, id ID) (Session, error)
	// FindKey returns the session of owner that was created with an
	// idempotency key and has not failed, or NotFound.
	FindKey(ctx context.Context, owner, key string) (Session, error)
	// LastNamed returns the session of owner with a name that ended last, or NotFound.
	LastNamed(ctx context.Context, owner, name string) (Session, error)
	// List returns the sessions that match, oldest first.
	List(ctx context.Context, filter ListFilter) ([]Session, error)
	// Touch records activity on sessions that exist, all in one transaction.
	Touch(ctx context.Context, activity []Activity) error
	// Prune forgets the sessions that ended before a time, and of each owner the oldest of
	// more than most that have ended. It says how many.
	Prune(ctx context.Context, endedBefore time.Time, most int) (int64, error)
}

// Activity is the part of a session that changes with use. It is written in
// batches, so that an exec costs no write to disk.
type Activity struct {
	ID  ID
	At  time.Time
	Cwd string
}

// ListFilter selects rows. Its zero value selects all of sessions that have not
// ended.
type ListFilter struct {
	Owner        *string // nil is every owner
	IncludeEnded bool
	Helpers      bool // also the hidden sessions behind file calls of workspaces
	Ended        EndedPage
}

// EndedPage is a part of the sessions that have ended: there may be very many of them. Its
// zero value is all of them, and those that have not ended.
type EndedPage struct {
	Most  int                // how many
	By    string             // the column they are sorted by, then by ID: created_at, last_activity or name
	Down  bool               // the other way round
	After ID                 // the one before the page, or "", and what it has in the column
	At    any                // microseconds, or a name
	Takes func(Session) bool // which of them
}

func (o Options) withDefaults() Options {
	if o.Creator == nil {
		o.Creator = o.Driver
	}
	if len(o.Drivers) == 0 {
		o.Drivers = []string{runtime.ID("").Driver()}
	}
	o.WorkspaceDriver = cmp.Or(o.WorkspaceDriver, o.Drivers[0])
	if o.ImagesOf == nil {
		o.ImagesOf = func(string) ImageResolver { return o.Images }
	}
	if o.Reserved == nil {
		o.Reserved = func(runtime.ID) bool { return false }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Admit == nil {
		o.Admit = func(context.Context, Admission) error { return nil }
	}
	if o.Remote == nil {
		o.Remote = func(string) bool { return false }
	}
	if o.Held == nil {
		o.Held = func(context.Context, ID) bool { return false }
	}
	if o.Quotas == nil {
		o.Quotas = auth.FixedQuotas{}
	}
	if o.Freed == nil {
		o.Freed = func() {}
	}
	if o.Settled == nil {
		o.Settled = func() {}
	}
	o.Seccomp = cmp.Or(o.Seccomp, runtime.SeccompStrict)
	o.AdoptParallel = cmp.Or(o.AdoptParallel, 32)
	o.FlushEvery = cmp.Or(o.FlushEvery, 15*time.Second)
	o.KillGrace = cmp.Or(o.KillGrace, 2*time.Second)
	o.CreateTimeout = cmp.Or(o.CreateTimeout, time.Minute)
	o.RestoreTimeout = cmp.Or(o.RestoreTimeout, 30*time.Minute)
	o.DestroyTimeout = cmp.Or(o.DestroyTimeout, time.Minute)
	o.Defaults, o.Maxima = complete(o.Defaults, o.Maxima)
	return o
}
