package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session/check"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
)

// entry is what the manager keeps in memory of a session that has not ended:
// a copy of its row, the handle on its sandbox, and its use.
type entry struct {
	id     ID
	owner  string
	helper bool
	key    string // the idempotency key
	name   string // "" if it has none

	// changing holds one token. Who takes it may change the session's state
	// and call the driver for its sandbox; it is held across both.
	changing chan struct{}

	// created is closed when Create is through with the session. From then on
	// createErr says how that went and does not change.
	created   chan struct{}
	createErr error

	// over is closed when the session has ended.
	over     chan struct{}
	overOnce sync.Once

	// madeWorkspace says that Create made the session's workspace. It is
	// Create's alone.
	madeWorkspace bool

	// What the client of the create asked for; they are Create's alone.
	restoreID string              // the snapshot to begin with, "" without
	image     string              // "" if it named none
	restore   *snapshots.Snapshot // that of restoreID, when it is known

	// cancelCreate stops the driver from making the sandbox.
	cancelCreate context.CancelFunc

	mu       sync.Mutex
	s        Session // guarded by mu; state changes only with changing held
	sb       box     // guarded by mu; set when the sandbox exists
	unwanted bool    // guarded by mu; Destroy came before Create was through
	using    int     // guarded by mu; operations in progress
	filing   int     // guarded by mu; those of them that work on files
	untold   bool    // guarded by mu; activity that the store does not know

	interrupt context.CancelFunc // guarded by mu; ends what has the lock for long, or nil
}

// box is the way into a sandbox.
type box struct {
	sandbox runtime.Sandbox
	client  *runnerclient.Client
}

// close ends the connections that no operation uses.
func (b box) close() error {
	if b.client == nil {
		return nil
	}
	return b.client.Close()
}

// newEntry returns an entry whose lock the caller holds.
func newEntry(s Session) *entry {
	return &entry{
		id:           s.ID,
		owner:        s.Owner,
		helper:       s.Helper,
		key:          s.IdempotencyKey,
		name:         s.Name,
		changing:     make(chan struct{}, 1),
		created:      make(chan struct{}),
		over:         make(chan struct{}),
		cancelCreate: func() {},
		s:            s,
	}
}

// finishCreate lets go of those who wait for the create.
func (e *entry) finishCreate(err error) {
	e.createErr = err
	close(e.created)
}

// lock waits for the right to change e. Whoever gets it calls unlock.
func (e *entry) lock(ctx context.Context) error {
	select {
	case <-e.changing:
		return nil
	case <-ctx.Done():
		return errdefs.Wrap(ctx.Err(), errdefs.Unavailable, "session %s is busy starting or stopping; try again", e.id)
	}
}

func (e *entry) unlock() { e.changing <- struct{}{} }

// snapshot returns the session as it is now. A session in use is active now.
func (e *entry) snapshot() Session {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.now()
}

// now is snapshot for a caller who holds mu.
func (e *entry) now() Session {
	s := e.s
	if e.using > 0 {
		s.LastActivity = clock()
	}
	return s
}

// stop brings the session to state stopping if how has an end for it, and
// returns it. From then on no operation begins. One that began before counted
// as activity, so it is either seen by how or refused. A session that is being
// stopped may be ended instead. The caller holds the lock.
func (e *entry) stop(how ending) (Session, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.s.State == Stopping && e.s.End.Ended() {
		return e.s, nil
	}
	s := e.now()
	end, reason := how(s)
	if end == "" {
		return s, nil
	}
	if s.State == Stopping {
		s.EndReason = reason
	} else if err := s.To(Stopping, reason); err != nil {
		return s, err
	}
	s.End = end
	e.s = s
	return s, nil
}

// pause brings a running session to state paused if why has a reason for it,
// and reports whether it did. From then on no operation begins. The caller
// holds the lock.
func (e *entry) pause(why func(Session) string) (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.now()
	reason := why(s)
	if reason == "" {
		return false, nil
	}
	if err := s.To(Paused, reason); err != nil {
		return false, err
	}
	e.s = s
	return true, nil
}

// replace sets the session to s, but for what changes with use.
func (e *entry) replace(s Session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.s.LastActivity.After(s.LastActivity) {
		s.LastActivity = e.s.LastActivity
	}
	s.Cwd = e.s.Cwd
	e.s = s
}

// become makes e stand for another session than the one it was made for.
func (e *entry) become(s Session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.s = s
}

func (e *entry) box() box {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sb
}

// open makes e usable through sandbox, unless it is already.
func (e *entry) open(sandbox runtime.Sandbox) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sb.sandbox != nil {
		return
	}
	e.s.Sandbox = sandbox.ID()
	e.sb = box{sandbox: sandbox, client: &runnerclient.Client{Dial: sandbox.DialRunner}}
}

// reopen makes e usable through a sandbox that has been booted again: the
// default shell is back where it began.
func (e *entry) reopen(sandbox runtime.Sandbox, bootID string) {
	e.open(sandbox)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.s.BootID, e.s.Cwd = bootID, check.WorkspaceDir
	e.touch()
}

// shut forgets the way into a sandbox that is no more.
func (e *entry) shut() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sb = box{}
}

// use records activity by somebody who needs no sandbox.
func (e *entry) use() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.touch()
}

// errPaused is begin's refusal of a session that can be woken.
var errPaused = errors.New("the session is paused")

// begin marks the start of an operation: activity, and use until the returned
// function is called. It refuses a session that stopped running meanwhile.
func (e *entry) begin() (end func(), err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch e.s.State {
	case Running:
	case Paused:
		return nil, errPaused
	default:
		return nil, notRunning(e.s)
	}
	e.using++
	e.touch()
	return sync.OnceFunc(func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.using--
		e.touch()
	}), nil
}

// touch records activity. The caller holds mu.
func (e *entry) touch() {
	e.s.LastActivity = clock()
	e.untold = true
}

// moved records where the default shell is now.
func (e *entry) moved(cwd string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if cwd != "" {
		e.s.Cwd = cwd
		e.untold = true
	}
}

// news returns the activity that the store does not know yet, and whether
// there is any. It counts as told; tell it again if the store refuses.
func (e *entry) news() (Activity, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.using > 0 {
		e.touch()
	}
	told := e.untold
	e.untold = false
	return Activity{ID: e.s.ID, At: e.s.LastActivity, Cwd: e.s.Cwd}, told
}

func (e *entry) notTold() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.untold = true
}

// wanted reports whether nobody has asked to destroy e.
func (e *entry) wanted() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.unwanted
}

// refuse marks e for destruction as soon as whoever has its lock lets go of it.
func (e *entry) refuse() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unwanted = true
	if e.interrupt != nil {
		e.interrupt()
	}
}

// interruptible has refuse call stop until done is called, and now if it came
// before.
func (e *entry) interruptible(stop context.CancelFunc) (done func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.unwanted {
		stop()
	}
	e.interrupt = stop
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.interrupt = nil
	}
}

// clockSet has e tell times by the wall clock as it is now.
func (e *entry) clockSet(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.s.CreatedAt, e.s.LastActivity = now.Add(e.s.CreatedAt.Sub(now)), now.Add(e.s.LastActivity.Sub(now))
}
