// Package snapshots keeps saved files of sessions: it has them packed while the
// session's programs stand still, keeps the archives in Blobs, and
// brings them back into new sessions. What sessions are, and when one may be
// made to stand still, is not its business.
package snapshots

import (
	"cmp"
	"context"
	"io"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/snapshot"
)

// Snapshot is what is known of one. Its truth is its row in the store; the
// archive is in Blobs under its Key.
type Snapshot struct {
	ID             string
	Owner          string
	Name           string // not unique
	Label          string // a note of the client's
	State          State
	Size           int64 // of the archive in bytes
	Manifest       snapshot.Manifest
	CreatedAt      time.Time
	IdempotencyKey string
	RequestHash    string
}

// Key is the name of the archive in Blobs.
func (s Snapshot) Key() string { return cmp.Or(s.Manifest.Key, s.ID) }

// State says whether a snapshot's archive is there. The row comes first and
// goes last, so that a crash leaves no archive that nobody knows of.
type State string

// The states, in their order. Only what is ready is shown to anybody.
const (
	Creating State = "creating"
	Ready    State = "ready"
	Deleting State = "deleting"
)

// Request asks for a snapshot of a session. Its zero values are everything in
// the workspace.
type Request struct {
	Name           string
	Label          string
	Scope          snapshot.Scope
	Fallback       snapshot.Scope `json:",omitempty"` // ScopeWorkspace where the driver cannot tell ScopeSandbox; "" is an error then
	Include        []string       // absolute, or from the workspace: only these, and what is below them
	Exclude        []string       // and not these
	IdempotencyKey string

	// Ends says that the session ends when the snapshot is made, which then frees what the
	// host is short of: it has room where another session would not, see Options.RoomToEnd.
	Ends bool `json:"-"`

	// MustMatch refuses a snapshot of which Include selects nothing.
	MustMatch bool `json:"-"`

	// Key names the archive in Blobs by the ID of its snapshot; nil is the ID itself.
	// An archive whose key ends in .tar.gz, encrypted or not, is kept as one.
	Key func(id string) string `json:"-"`
}

// UploadRequest is for a snapshot from an archive.
type UploadRequest struct {
	Name  string
	Label string
	Size  int64 // of the archive
}

// Filter selects snapshots. Its zero value selects all.
type Filter struct {
	SessionID string
	Name      string
}

// Options configures snapshots. Without a Store there are none: what needs one
// is refused with Unimplemented.
type Options struct {
	Store     Store
	Blobs     Blobs
	SpoolDir  string        // for archives under way; "" is the system's temporary directory
	MaxBytes  int64         // of an archive: 4 GiB
	MaxFiles  int64         // files, directories and links in one: 1 million
	MaxUnpack int64         // bytes of its files, holes included: 16 GiB
	MaxCount  int           // of one owner; 0 is no maximum
	Retention time.Duration // after which one is removed; 0 is for ever
	AtOnce    int           // made or uploaded, of one owner one less: 3
	Patience  time.Duration // of one that waits because of that: 1 minute
	Timeout   time.Duration // for one to be made: 30 minutes

	// RoomToEnd is how many bytes the archive of a session that ends may have, by what the
	// host has left. Nil is without that limit.
	RoomToEnd func() (int64, error)
}

// Store remembers snapshots. What it has written survives a crash from the
// moment the method returns.
type Store interface {
	// AddSnapshot inserts a snapshot. It returns AlreadyExists if another one of
	// the owner has its idempotency key, and ResourceExhausted if the owner has
	// most; 0 is no maximum.
	AddSnapshot(ctx context.Context, s Snapshot, most int) error
	// PutSnapshot changes the state, size and manifest of a snapshot that exists.
	PutSnapshot(ctx context.Context, s Snapshot) error
	// CountSnapshot changes the size of a snapshot that exists. It returns
	// InsufficientSpace, and changes nothing, if those of its owner, in whatever
	// state, had more than most bytes then; 0 is no maximum.
	CountSnapshot(ctx context.Context, s Snapshot, most int64) error
	// GetSnapshot returns NotFound if the owner has none of that id.
	GetSnapshot(ctx context.Context, owner, id string) (Snapshot, error)
	// FindSnapshot returns the one of an idempotency key, or NotFound.
	FindSnapshot(ctx context.Context, owner, key string) (Snapshot, error)
	// SnapshotsOf returns an owner's snapshots, oldest first.
	SnapshotsOf(ctx context.Context, owner string) ([]Snapshot, error)
	// SnapshotsNamed returns those of an owner with one name, oldest first. It
	// reads no others.
	SnapshotsNamed(ctx context.Context, owner, name string) ([]Snapshot, error)
	// AllSnapshots returns the snapshots of all owners, oldest first.
	AllSnapshots(ctx context.Context) ([]Snapshot, error)
	// DeleteSnapshot forgets a snapshot. An unknown one is not an error.
	DeleteSnapshot(ctx context.Context, id string) error
	// AbandonSnapshots changes all that are Creating to Deleting.
	AbandonSnapshots(ctx context.Context) error
}

// Blobs keeps archives.
type Blobs interface {
	// Put keeps all of r or, when it fails, nothing that Sweep does not remove.
	Put(ctx context.Context, key string, r io.Reader) (size int64, err error)
	// Open returns NotFound if there is no such key. The caller closes it.
	Open(ctx context.Context, key string, offset int64) (io.ReadCloser, error)
	// Delete of what is not there is no error.
	Delete(ctx context.Context, key string) error
	// Sweep removes what crashes have left.
	Sweep(ctx context.Context) error
}

// Sessions is what snapshots need of sessions.
type Sessions interface {
	CheckReady() error               // refuses changes before the sessions are known
	Admit(ctx context.Context) error // refuses what the host has no room for
	// CheckKnown refuses a session that p may not use, as one that never was.
	CheckKnown(ctx context.Context, p auth.Principal, id string) error
	// StandStill calls do while the programs of a session stand still, and its
	// state does not change.
	StandStill(ctx context.Context, p auth.Principal, id string, do func(context.Context, Source) error) error
	NewID() string // never the same one twice
}

// Source is a session that stands still.
type Source struct {
	Client      *runnerclient.Client
	Image       string
	ImageDigest string
	Cwd         string

	ReadonlyRoot bool // whose files are all the image's
}

func (o Options) withDefaults() Options {
	o.MaxBytes = cmp.Or(o.MaxBytes, 4<<30)
	o.MaxFiles = cmp.Or(o.MaxFiles, 1_000_000)
	o.MaxUnpack = cmp.Or(o.MaxUnpack, 16<<30)
	o.AtOnce = cmp.Or(o.AtOnce, 3)
	o.Patience = cmp.Or(o.Patience, time.Minute)
	o.Timeout = cmp.Or(o.Timeout, 30*time.Minute)
	return o
}
