// Package orchestrator keeps sandboxes that have a name of their client's choice
// and outlive the sessions they run in: what ends is saved, and the next use of
// the name begins another session with the saved files. It decides when that
// happens. How a session or a snapshot is made, and who may have how much, is the
// core's.
package orchestrator

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/keylock"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
)

// Session is one sandbox as its client knows it. Its truth is its row, which stays
// when it ends.
type Session struct {
	ID    string // a UUID, maybe of the client's choice
	Owner string
	Core  session.ID // what it runs in, or last ran in; empty before

	Mode             string // as asked for
	Image            string // as asked for, or the default
	CPU              string // this and the next two as written, or empty
	Memory           string
	EphemeralStorage string
	IdleTimeout      time.Duration
	MaxLifetime      time.Duration
	Metadata         map[string]any // the client's own
	ArtifactBaseURL  string

	Status           Status
	TerminatedReason string // why it last ended, if no client ended it
	Error            string // what went wrong last, for people

	RestoreSnapshot string   // that it began with last
	LatestSnapshot  string   // that it begins with next
	BadSnapshots    []string // that it could not begin with, twice: their archives are lost or damaged

	// Suspect is the snapshot whose archive was lost or damaged when it was restored at
	// SuspectAt. A second try decides whether it is bad.
	Suspect   string
	SuspectAt time.Time

	// UnsavedSince is when it ended with files that could not be saved, and are kept on
	// the disk of Core; zero if there are none.
	UnsavedSince time.Time

	CPUSeconds   float64 // of the sessions that have ended
	StorageBytes int64   // on disk when the last one ended

	LastActivity  time.Time
	LastHeartbeat time.Time
	ExpiresAt     time.Time
	CreatedAt     time.Time
	UpdatedAt     time.Time
}

// Seen is what changes with use. It is written in batches, so that a heartbeat
// costs no write to disk.
type Seen struct {
	ID        string
	Activity  time.Time // or zero: as before
	Heartbeat time.Time
}

// Store remembers sessions. What Put has written survives a crash from the moment
// it returns.
type Store interface {
	PutOrchestrated(ctx context.Context, s Session) error
	// GetOrchestrated returns the one with this ID or Core, or NotFound.
	GetOrchestrated(ctx context.Context, ref string) (Session, error)
	// OrchestratedOf returns an owner's, or with nil everybody's, newest first.
	OrchestratedOf(ctx context.Context, owner *string) ([]Session, error)
	// LiveOrchestrated returns everybody's that are starting, ready or unsaved.
	LiveOrchestrated(ctx context.Context) ([]Session, error)
	// EndedOrchestrated returns the IDs of some that are failed or terminated, are not
	// unsaved and have not changed since a time.
	EndedOrchestrated(ctx context.Context, before time.Time) ([]string, error)
	// EmptyOrchestrated returns those of EndedOrchestrated that have no snapshots and no
	// artifacts.
	EmptyOrchestrated(ctx context.Context, before time.Time) ([]string, error)
	// DeleteOrchestrated forgets a session. An unknown one is not an error.
	DeleteOrchestrated(ctx context.Context, id string) error
	// SeeOrchestrated notes use of sessions that exist, all in one transaction.
	SeeOrchestrated(ctx context.Context, seen []Seen) error
}

// Sessions is what the core does for it.
type Sessions interface {
	Create(ctx context.Context, p auth.Principal, req session.CreateRequest) (session.Session, error)
	Get(ctx context.Context, p auth.Principal, id session.ID) (session.Session, error)
	Start(ctx context.Context, p auth.Principal, id session.ID) (session.Session, error)
	Stop(ctx context.Context, p auth.Principal, id session.ID) (session.Session, error)
	Pause(ctx context.Context, p auth.Principal, id session.ID, memory session.Memory) (session.Session, error)
	Resume(ctx context.Context, p auth.Principal, id session.ID) (session.Session, error)
	Heartbeat(ctx context.Context, p auth.Principal, id session.ID) (session.Session, error)
	Destroy(ctx context.Context, p auth.Principal, id session.ID) error
	Find(p auth.Principal, ref string) (session.ID, error)
	Stats(ctx context.Context, p auth.Principal, id session.ID) (runtime.Stats, error)
	Limits(p auth.Principal) (session.Defaults, session.Maxima, auth.Quota)
}

// Snapshots is what keeps the files of sessions that end.
type Snapshots interface {
	Enabled() bool
	Create(ctx context.Context, p auth.Principal, sessionID string, req snapshots.Request) (snapshots.Snapshot, error)
	List(ctx context.Context, p auth.Principal, f snapshots.Filter) ([]snapshots.Snapshot, error)
	Get(ctx context.Context, p auth.Principal, id string) (snapshots.Snapshot, error)
	Delete(ctx context.Context, p auth.Principal, id string) error
}

// Options configures a Service. Store, Sessions, Snapshots and Drivers are
// required.
type Options struct {
	Store     Store
	Sessions  Sessions
	Snapshots Snapshots
	Ready     func() bool // whether the core has its sessions; nil is always

	Drivers      []string          // of the core, the default first
	Keeper       string            // which of Drivers has the workspaces that are kept; the default one
	DefaultMode  string            // of requests without one; the default driver's
	Modes        map[string]string // the driver of a mode, where it is not the one of its name
	Planned      func(string) bool // modes whose driver no build has yet; nil is none
	DefaultImage string            // the core's
	ImageAliases map[string]string // the core's name of an image that clients call otherwise
	Workspace    string            // a kept one of each owner, for all its sessions; "" gives each session its own

	IdleTimeout time.Duration // of requests without one: 5 minutes
	MaxLifetime time.Duration // and this: an hour
	Every       time.Duration // between two rounds of the reaper: a minute
	KeepAuto    int           // snapshots of one session that ends have taken; older ones go: 3
	Retention   time.Duration // of sessions that have ended; 0 is for ever

	UnsavedRetention time.Duration // of files that cannot be saved when their session ends: 7 days

	// DiskLimited reports whether a driver bounds what a sandbox writes; nil is that all do.
	DiskLimited func(driver string, readonlyRoot bool) bool

	// InMemory reports whether a driver's sandboxes lose their files when they stop; nil
	// is that none does.
	InMemory func(driver string) bool

	// MemoryEvery is the time between two snapshots of a ready session whose files are
	// in memory, while it is used. It bounds what its crash loses: 5 minutes.
	MemoryEvery time.Duration

	// Forget, which may be nil, removes what others keep of a session that is
	// forgotten. It may be called again.
	Forget func(ctx context.Context, id string) error

	ArchiveSuffix string // of the keys of snapshots, behind .tar.gz

	Log *slog.Logger // silence
}

// Service is what clients do. Each principal knows the sessions of its owner; to
// every other one they do not exist. Its methods may be called concurrently.
type Service struct {
	opts    Options
	locks   *keylock.Locks     // of sessions, while they change
	flights singleflight.Group // creates of one session, which get one answer

	mu   sync.Mutex
	seen map[string]Seen  // guarded by mu; use that the store does not know
	work map[string]*work // guarded by mu; operations in progress

	retries map[string]retry // guarded by mu; of unsaved sessions
	shots   map[string]shot  // guarded by mu; of ready sessions in memory
	settled map[string]int64 // guarded by mu; how many are not unsaved any more, by how
}

// New returns the service of what the store has. Run makes its reaper work.
func New(o Options) *Service {
	o.IdleTimeout = cmp.Or(o.IdleTimeout, 5*time.Minute)
	o.MaxLifetime = cmp.Or(o.MaxLifetime, time.Hour)
	o.Every = cmp.Or(o.Every, time.Minute)
	o.KeepAuto = cmp.Or(o.KeepAuto, 3)
	o.UnsavedRetention = cmp.Or(o.UnsavedRetention, 7*24*time.Hour)
	o.MemoryEvery = cmp.Or(o.MemoryEvery, 5*time.Minute)
	if o.DiskLimited == nil {
		o.DiskLimited = func(string, bool) bool { return true }
	}
	if o.Planned == nil {
		o.Planned = func(string) bool { return false }
	}
	if o.InMemory == nil {
		o.InMemory = func(string) bool { return false }
	}
	o.DefaultMode = cmp.Or(o.DefaultMode, o.Drivers[0])
	o.Keeper = cmp.Or(o.Keeper, o.Drivers[0])
	if o.Forget == nil {
		o.Forget = func(context.Context, string) error { return nil }
	}
	if o.Ready == nil {
		o.Ready = func() bool { return true }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Service{opts: o, locks: keylock.New(), seen: map[string]Seen{}, work: map[string]*work{}, retries: map[string]retry{}, shots: map[string]shot{}, settled: map[string]int64{}}
}

// Get returns one session as it is now. Ref is its ID, or its Core.
func (s *Service) Get(ctx context.Context, p auth.Principal, ref string) (Session, error) {
	found, err := s.find(ctx, p, ref)
	if err != nil {
		return Session{}, err
	}
	return s.current(ctx, found)
}

// List returns the principal's sessions, newest first.
func (s *Service) List(ctx context.Context, p auth.Principal) ([]Session, error) {
	owner := &p.Owner
	if p.OwnsAll() {
		owner = nil
	}
	all, err := s.opts.Store.OrchestratedOf(ctx, owner)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i], err = s.current(ctx, s.withSeen(all[i])); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// find returns the row of a session that p may use.
func (s *Service) find(ctx context.Context, p auth.Principal, ref string) (Session, error) {
	found, err := s.opts.Store.GetOrchestrated(ctx, ref)
	if errdefs.Is(err, errdefs.NotFound) || err == nil && found.Owner != p.Owner && !p.OwnsAll() {
		return Session{}, errNoSession()
	}
	return s.withSeen(found), err
}

// current is a session with the status that what it runs in gives it.
func (s *Service) current(ctx context.Context, x Session) (Session, error) {
	if x.Status != Ready {
		return x, nil
	}
	core, err := s.opts.Sessions.Get(ctx, ownerOf(x), x.Core)
	if errdefs.Is(err, errdefs.NotFound) {
		x.Status = Terminated
		return x, nil
	}
	if err != nil {
		return x, err
	}
	x.Status = statuses[core.State]
	if x.Status == Failed && x.Error == "" {
		x.Error = core.EndReason
	}
	if x.Status == Failed && x.TerminatedReason == ReasonRestore { // which was once, before it was ready
		x.TerminatedReason = ""
	}
	return x, nil
}

// put writes a row.
func (s *Service) put(ctx context.Context, x *Session) error {
	x.UpdatedAt = time.Now().UTC()
	return s.opts.Store.PutOrchestrated(context.WithoutCancel(ctx), *x)
}

// ownerOf is in whose name things are done to what x runs in, whoever asks.
func ownerOf(x Session) auth.Principal {
	return auth.Principal{Owner: x.Owner, ID: "daemon/orchestrator", Quota: x.Owner}
}

func errNoSession() error {
	return errdefs.New(errdefs.NotFound, "no such session").Because(errdefs.NoSuchSession)
}

// saw notes use of a session.
func (s *Service) saw(id string, activity bool) {
	now := time.Now().UTC()
	s.mu.Lock()
	defer s.mu.Unlock()
	noted := s.seen[id]
	noted.ID, noted.Heartbeat = id, now
	if activity {
		noted.Activity = now
	}
	s.seen[id] = noted
}

// withSeen is a row with the use that it does not tell of yet.
func (s *Service) withSeen(x Session) Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	noted := s.seen[x.ID]
	x.LastActivity = latest(x.LastActivity, noted.Activity)
	x.LastHeartbeat = latest(x.LastHeartbeat, noted.Heartbeat)
	return x
}

// flush writes the use that the store does not know.
func (s *Service) flush(ctx context.Context) error {
	s.mu.Lock()
	unsaved := s.seen
	s.seen = map[string]Seen{}
	s.mu.Unlock()
	if len(unsaved) == 0 {
		return nil
	}
	list := make([]Seen, 0, len(unsaved))
	for _, one := range unsaved {
		list = append(list, one)
	}
	err := s.opts.Store.SeeOrchestrated(ctx, list)
	if err == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range list {
		noted := s.seen[one.ID]
		s.seen[one.ID] = Seen{ID: one.ID, Activity: latest(one.Activity, noted.Activity), Heartbeat: latest(one.Heartbeat, noted.Heartbeat)}
	}
	return err
}

// work is what is under way in a session.
type work struct {
	uses   int  // operations
	ending bool // its files are being saved at its end
	ends   int  // how often that has begun while there were operations
}

// begin counts an operation on a session until end is called: it is not idle
// meanwhile. end reports whether the session has begun to end since then. It is not ok
// while the session is ending: what is written then is in no snapshot.
func (s *Service) begin(id string) (end func() (overtaken bool), ok bool) {
	s.saw(id, true)
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.workOf(id)
	if w.ending {
		return nil, false
	}
	w.uses++
	began := w.ends
	return func() bool {
		s.saw(id, true)
		s.mu.Lock()
		defer s.mu.Unlock()
		w.uses--
		s.dropIdle(id, w)
		return w.ends != began
	}, true
}

// beginEnd keeps new operations from a session until end is called, and tells those
// under way. The caller has the session's lock.
func (s *Service) beginEnd(id string) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.workOf(id)
	w.ending = true
	w.ends++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		w.ending = false
		s.dropIdle(id, w)
	}
}

// workOf returns what is under way in a session. The caller holds mu.
func (s *Service) workOf(id string) *work {
	w := s.work[id]
	if w == nil {
		w = &work{}
		s.work[id] = w
	}
	return w
}

// dropIdle forgets a session in which nothing is under way. The caller holds mu.
func (s *Service) dropIdle(id string, w *work) {
	if w.uses == 0 && !w.ending {
		delete(s.work, id)
	}
}

func (s *Service) isBusy(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.work[id]
	return w != nil && w.uses > 0
}

func latest(a, b time.Time) time.Time { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }
