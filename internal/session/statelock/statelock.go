// Package statelock is the right to change one session's state, which waits for a
// context and which a destroyer can interrupt.
package statelock

import (
	"context"
	"sync"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// Lock is the right to change a session's state and to call the driver for its
// sandbox. It is held across both.
type Lock struct {
	of    string
	token chan struct{} // has one, which the holder has taken

	wishMu    sync.Mutex
	unwanted  bool               // guarded by wishMu; Destroy came before Create was through
	interrupt context.CancelFunc // guarded by wishMu; ends what has the lock for long, or nil
}

// New returns the lock of a session, which the caller holds.
func New(of string) Lock { return Lock{of: of, token: make(chan struct{}, 1)} }

// Acquire waits for the right to change the session. The caller gives it back with
// Release.
func (l *Lock) Acquire(ctx context.Context) error {
	select {
	case <-l.token:
		return nil
	case <-ctx.Done():
		return errdefs.Wrap(ctx.Err(), errdefs.Unavailable, "session %s is busy starting or stopping; try again", l.of)
	}
}

// TryAcquire is Acquire if nobody has the right now, and reports whether that is so.
func (l *Lock) TryAcquire() bool {
	select {
	case <-l.token:
		return true
	default:
		return false
	}
}

// Release gives the right back.
func (l *Lock) Release() { l.token <- struct{}{} }

// Wanted reports whether nobody has asked to destroy the session.
func (l *Lock) Wanted() bool {
	l.wishMu.Lock()
	defer l.wishMu.Unlock()
	return !l.unwanted
}

// Refuse marks the session for destruction as soon as the lock is free.
func (l *Lock) Refuse() {
	l.wishMu.Lock()
	defer l.wishMu.Unlock()
	l.unwanted = true
	if l.interrupt != nil {
		l.interrupt()
	}
}

// Interruptible has Refuse call stop until done is called, and now if it came
// before.
func (l *Lock) Interruptible(stop context.CancelFunc) (done func()) {
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
