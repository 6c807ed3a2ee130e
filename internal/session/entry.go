package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sandkasten/sandkasten/internal/events"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session/laststats"
	"github.com/sandkasten/sandkasten/internal/session/statelock"
)

// entry is what the registry keeps of a session that has not ended: a copy of
// its row with the way into its sandbox, the lock on its state, and its use.
type entry struct {
	core   *core
	id     ID
	owner  string
	helper bool
	events *events.Hub // nil takes none
	key    string      // the idempotency key
	name   string      // "" if it has none

	booting bool // guarded by registry.mu; stopped and no more

	statelock.Lock

	// created is closed when Create is through with the session. From then on
	// createErr says how that went and does not change.
	created      chan struct{}
	createErr    error
	cancelCreate context.CancelFunc // stops the driver from making the sandbox

	// over is closed when the session has ended.
	over     chan struct{}
	overOnce sync.Once

	lastStats laststats.Last

	mu       sync.Mutex
	record   record   // guarded by mu; its state changes only with the Lock held
	known    bool     // guarded by mu; that there is the session, by subscribers to events
	activity activity // guarded by mu
}

// newEntry returns an entry whose lock the caller holds.
func (c *core) newEntry(s Session) *entry {
	hub := c.opts.Events
	if s.Helper {
		hub = nil // nobody knows of it
	}
	return &entry{
		core:         c,
		events:       hub,
		id:           s.ID,
		owner:        s.Owner,
		helper:       s.Helper,
		key:          s.IdempotencyKey,
		name:         s.Name,
		Lock:         statelock.New(string(s.ID)),
		created:      make(chan struct{}),
		cancelCreate: func() {},
		over:         make(chan struct{}),
		record:       record{session: s},
	}
}

// finishCreate lets go of those who wait for the create.
func (e *entry) finishCreate(err error) {
	e.createErr = err
	close(e.created)
}

// snapshot returns the session as it is now. A session in use is active now.
func (e *entry) snapshot() Session {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.now()
}

// now is snapshot for a caller who holds mu.
func (e *entry) now() Session {
	s := e.record.session
	if e.activity.using > 0 {
		s.LastActivity = clock()
	}
	return s
}

// stop brings the session to state stopping if how has an end for it, and
// returns it. From then on no operation begins. One that began before counted
// as activity, so it is either seen by how or refused. The caller holds the lock.
func (e *entry) stop(how ending) (Session, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.now()
	if err := e.record.stop(s, how); err != nil {
		return s, err
	}
	e.tell(s)
	return e.record.session, nil
}

// pause brings a running session to state paused if why has a reason for it,
// and reports whether it did. From then on no operation begins. The caller
// holds the lock.
func (e *entry) pause(why func(Session) string) (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.now()
	paused, err := e.record.pause(before, why)
	if paused {
		e.tell(before)
	}
	return paused, err
}

// replace sets the session to s, but for what changes with use.
func (e *entry) replace(s Session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.record.session
	e.record.replace(s)
	e.tell(before)
}

// become makes e stand for another session than the one it was made for.
func (e *entry) become(s Session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.record.session = s
}

func (e *entry) box() box {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.record.box
}

// open makes e usable through its sandbox, unless it is already.
func (e *entry) open(sandbox runtime.Sandbox) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.record.open(sandbox)
}

// reopen makes e usable through a sandbox that has been booted again.
func (e *entry) reopen(sandbox runtime.Sandbox, bootID string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.record.reopen(sandbox, bootID)
	e.touch()
}

// shut forgets the way into a sandbox that is no more.
func (e *entry) shut() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.record.box = box{}
}

// use records activity by somebody who needs no sandbox.
func (e *entry) use() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.touch()
}

// stopByHand is use by a client who stops the session.
func (e *entry) stopByHand() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.record.session.ByHand = true
	e.touch()
}

// errPaused is begin's refusal of a session that can be woken.
var errPaused = errors.New("the session is paused")

// begin marks the start of an operation: activity, and use until the returned
// function is called. It refuses a session that stopped running meanwhile.
func (e *entry) begin() (end func(), err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch s := &e.record.session; s.State {
	case Running:
	case Paused:
		return nil, errPaused
	default:
		return nil, notRunning(*s)
	}
	e.activity.using++
	e.touch()
	return sync.OnceFunc(func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.activity.using--
		e.touch()
	}), nil
}

// touch records activity. The caller holds mu.
func (e *entry) touch() {
	e.record.session.LastActivity = clock()
	e.activity.unsaved = true
}

// takeUnsaved returns the activity that the store does not know yet, and whether
// there is any. It counts as saved from then on; see markUnsaved.
func (e *entry) takeUnsaved() (Activity, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.activity.using > 0 {
		e.touch()
	}
	unsaved := e.activity.unsaved
	e.activity.unsaved = false
	s := &e.record.session
	return Activity{ID: s.ID, At: s.LastActivity, Cwd: s.Cwd}, unsaved
}

// markUnsaved has takeUnsaved return the activity once more.
func (e *entry) markUnsaved() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.activity.unsaved = true
}

// clockSet has e tell times by the wall clock as it is now.
func (e *entry) clockSet(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.record.clockSet(now)
}
