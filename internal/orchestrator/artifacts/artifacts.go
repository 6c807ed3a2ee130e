// Package artifacts keeps copies of files outside the sandboxes that they come from,
// and makes links to them that work for a time. Content that an owner has kept
// already takes no more room. How a file is read out of a sandbox, and who may, is
// decided elsewhere.
package artifacts

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/keylock"
)

// Artifact is a file that was kept. Its truth is its row in the store; the content is
// in Blobs under its owner and hash.
type Artifact struct {
	ID          string // a UUID
	Owner       string
	SessionID   string // of the orchestrator
	Filename    string
	ContentType string
	Size        int64
	StoragePath string // in the sandbox
	SHA256      string // of the content, in hex
	State       State
	CreatedAt   time.Time
}

// State says whether an artifact's content is there. The row comes first and goes
// last, so that a crash leaves no content that nobody knows of.
type State string

// The states, in their order. Only what is ready is shown to anybody.
const (
	Creating State = "creating"
	Ready    State = "ready"
	Deleting State = "deleting"
)

// Selection selects artifacts. Its empty fields select all.
type Selection struct {
	ID        string
	Owner     string
	SessionID string
	Before    time.Time // that are older
	State     State
}

// Store remembers artifacts. What it has written survives a crash from the moment
// the method returns.
type Store interface {
	// AddArtifact inserts an artifact. It returns InsufficientSpace if the different
	// contents of its owner, in whatever state, had more than most bytes then, and
	// ResourceExhausted if the owner has count already; 0 is no maximum.
	AddArtifact(ctx context.Context, a Artifact, most int64, count int) error
	// ReadyArtifact makes one Ready that is Creating.
	ReadyArtifact(ctx context.Context, id string) error
	// GetArtifact returns one that is Ready, or NotFound.
	GetArtifact(ctx context.Context, id string) (Artifact, error)
	// ArtifactsOf returns those of a session that are Ready, newest first.
	ArtifactsOf(ctx context.Context, sessionID string) ([]Artifact, error)
	// CountArtifacts counts what is Ready by session: of one session, or of all of an
	// owner, or with neither of everybody.
	CountArtifacts(ctx context.Context, sel Selection) (map[string]int, error)
	// HasContent reports whether an artifact of the owner in one of the states has that
	// content.
	HasContent(ctx context.Context, owner, sha256 string, states ...State) (bool, error)
	// DropArtifacts makes Deleting what is selected.
	DropArtifacts(ctx context.Context, sel Selection) error
	// DroppedArtifacts returns what is Deleting.
	DroppedArtifacts(ctx context.Context, sel Selection) ([]Artifact, error)
	// DeleteArtifact forgets one. An unknown one is not an error.
	DeleteArtifact(ctx context.Context, id string) error
}

// Blobs keeps contents. What a crash leaves of a Put is swept by who opens it.
type Blobs interface {
	Put(ctx context.Context, key string, r io.Reader) (size int64, err error)
	Open(ctx context.Context, key string, offset int64) (io.ReadCloser, error)
	Delete(ctx context.Context, key string) error
}

// Options configures a Service. Store, Blobs, Secret and Credentials are required.
type Options struct {
	Store    Store
	Blobs    Blobs
	SpoolDir string // for content on its way; "" is the system's temporary directory
	Secret   []byte // that links are signed with

	Credentials auth.Credentials // with which the daemon's links end

	// Link returns the object store's own link to a blob; nil is for links to the
	// daemon.
	Link func(ctx context.Context, key string, life time.Duration, a Artifact) (string, error)

	BaseURL   string        // of all links; "" is for signed ones
	LinkLife  time.Duration // of a signed link: a day
	MaxBytes  int64         // of one file: 1 GiB
	Quota     int64         // bytes of one owner; 0 is no maximum
	MaxCount  int           // of one owner: 100,000
	Retention time.Duration // after which one is removed; 0 is for ever
	Every     time.Duration // between two rounds of removals: a minute

	Log *slog.Logger // silence
}

// Service keeps artifacts. Its methods may be called concurrently.
type Service struct {
	opts  Options
	locks *keylock.Locks // of contents, by their keys
}

// New returns the service of what the store has. Run makes it remove what is old.
func New(o Options) *Service {
	o.LinkLife = cmp.Or(o.LinkLife, 24*time.Hour)
	o.MaxBytes = cmp.Or(o.MaxBytes, 1<<30)
	o.MaxCount = cmp.Or(o.MaxCount, 100_000)
	o.Every = cmp.Or(o.Every, time.Minute)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Service{opts: o, locks: keylock.New()}
}

// key names the content of an artifact. No owner's content is in another one's
// place, even where they have the same: who learns that would learn what others have.
func (a Artifact) key() string {
	owner := sha256.Sum256([]byte(a.Owner))
	return "artifacts/" + hex.EncodeToString(owner[:16]) + "/" + a.SHA256
}

// Get returns one artifact of the principal's. To every other one it does not exist.
func (s *Service) Get(ctx context.Context, p auth.Principal, id string) (Artifact, error) {
	a, err := s.opts.Store.GetArtifact(ctx, id)
	if err == nil && a.Owner != p.Owner && !p.OwnsAll() {
		return Artifact{}, errdefs.New(errdefs.NotFound, "no such artifact")
	}
	return a, err
}

// List returns the artifacts of a session, newest first.
func (s *Service) List(ctx context.Context, sessionID string) ([]Artifact, error) {
	return s.opts.Store.ArtifactsOf(ctx, sessionID)
}

// Count counts the artifacts of a session.
func (s *Service) Count(ctx context.Context, sessionID string) (int, error) {
	counts, err := s.opts.Store.CountArtifacts(ctx, Selection{SessionID: sessionID})
	return counts[sessionID], err
}

// Counts counts the artifacts of the sessions of an owner, or with "" of everybody.
func (s *Service) Counts(ctx context.Context, owner string) (map[string]int, error) {
	return s.opts.Store.CountArtifacts(ctx, Selection{Owner: owner})
}

// Open opens the content of an artifact. The caller closes it.
func (s *Service) Open(ctx context.Context, a Artifact) (io.ReadCloser, error) {
	content, err := s.opts.Blobs.Open(ctx, a.key(), 0)
	if errdefs.Is(err, errdefs.NotFound) {
		return nil, errdefs.Wrap(err, errdefs.NotFound, "the content of artifact %s is lost; export it again", a.ID)
	}
	return content, err
}
