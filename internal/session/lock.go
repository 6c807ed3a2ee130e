package session

import (
	"context"
	"sync"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// stateLock is the right to change a session's state and to call the driver for
// its sandbox. It is held across both.
type stateLock struct {
	of    ID
	token chan struct{} // has one, which the holder has taken

	wishMu    sync.Mutex
	unwanted  bool               // guarded by wishMu; Destroy came before Create was through
	interrupt context.CancelFunc // guarded by wishMu; ends what has the lock for long, or nil
}

// newStateLock returns a lock that the caller holds.
func newStateLock(of ID) stateLock { return stateLock{of: of, token: make(chan struct{}, 1)} }

// lock waits for the right to change the session. The caller gives it back with
// unlock.
func (l *stateLock) lock(ctx context.Context) error {
	select {
	case <-l.token:
		return nil
	case <-ctx.Done():
		return errdefs.Wrap(ctx.Err(), errdefs.Unavailable, "session %s is busy starting or stopping; try again", l.of)
	}
}

func (l *stateLock) unlock() { l.token <- struct{}{} }

// wanted reports whether nobody has asked to destroy the session.
func (l *stateLock) wanted() bool {
	l.wishMu.Lock()
	defer l.wishMu.Unlock()
	return !l.unwanted
}

// refuse marks the session for destruction as soon as the lock is free.
func (l *stateLock) refuse() {
	l.wishMu.Lock()
	defer l.wishMu.Unlock()
	l.unwanted = true
	if l.interrupt != nil {
		l.interrupt()
	}
}

// interruptible has refuse call stop until done is called, and now if it came
// before.
func (l *stateLock) interruptible(stop context.CancelFunc) (done func()) {
	l.wishMu.Lock()
	defer l.wishMu.Unlock()
	if l.unwanted {
		stop()
	}
	l.interrupt = stop
	return func() {
		l.wishMu.Lock()
		defer l.wishMu.Unlock()
		l.interrupt = nil
	}
}
