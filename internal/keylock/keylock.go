// Package keylock has locks by name: one user of a thing at a time, as long as all of
// them are in one process. What is locked, and for how long, is its callers' business.
package keylock

import (
	"context"
	"sync"
)

// Locks are locks by name. One that nobody has or waits for takes no memory.
type Locks struct {
	mu   sync.Mutex
	held map[string]*keyLock // guarded by mu
}

type keyLock struct {
	held  chan struct{} // has one entry while somebody has the lock
	users int           // guarded by Locks.mu; who has it or waits for it
}

// New returns locks that nobody has.
func New() *Locks { return &Locks{held: map[string]*keyLock{}} }

// Acquire waits for a lock. The caller calls release.
func (l *Locks) Acquire(ctx context.Context, name string) (release func(), err error) {
	lock := l.join(name)
	select {
	case lock.held <- struct{}{}:
		return func() { <-lock.held; l.leave(name, lock) }, nil
	case <-ctx.Done():
		l.leave(name, lock)
		return nil, ctx.Err()
	}
}

// Try is Acquire if nobody has the lock.
func (l *Locks) Try(name string) (release func(), ok bool) {
	lock := l.join(name)
	select {
	case lock.held <- struct{}{}:
		return func() { <-lock.held; l.leave(name, lock) }, true
	default:
		l.leave(name, lock)
		return nil, false
	}
}

func (l *Locks) join(name string) *keyLock {
	l.mu.Lock()
	defer l.mu.Unlock()
	lock := l.held[name]
	if lock == nil {
		lock = &keyLock{held: make(chan struct{}, 1)}
		l.held[name] = lock
	}
	lock.users++
	return lock
}

func (l *Locks) leave(name string, lock *keyLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lock.users--; lock.users == 0 {
		delete(l.held, name)
	}
}
