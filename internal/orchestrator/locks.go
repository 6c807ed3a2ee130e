package orchestrator

import (
	"context"
	"sync"
)

// keyLocks are locks of sessions. A lock that nobody has or waits for takes no
// memory.
type keyLocks struct {
	mu   sync.Mutex
	held map[string]*keyLock // guarded by mu
}

type keyLock struct {
	held  chan struct{} // has one entry while somebody has the lock
	users int           // guarded by keyLocks.mu; who has it or waits for it
}

func newKeyLocks() *keyLocks { return &keyLocks{held: map[string]*keyLock{}} }

// acquire waits for the lock of a session. The caller calls release.
func (l *keyLocks) acquire(ctx context.Context, id string) (release func(), err error) {
	lock := l.join(id)
	select {
	case lock.held <- struct{}{}:
		return func() { <-lock.held; l.leave(id, lock) }, nil
	case <-ctx.Done():
		l.leave(id, lock)
		return nil, ctx.Err()
	}
}

// try is acquire if nobody has the lock.
func (l *keyLocks) try(id string) (release func(), ok bool) {
	lock := l.join(id)
	select {
	case lock.held <- struct{}{}:
		return func() { <-lock.held; l.leave(id, lock) }, true
	default:
		l.leave(id, lock)
		return nil, false
	}
}

func (l *keyLocks) join(id string) *keyLock {
	l.mu.Lock()
	defer l.mu.Unlock()
	lock := l.held[id]
	if lock == nil {
		lock = &keyLock{held: make(chan struct{}, 1)}
		l.held[id] = lock
	}
	lock.users++
	return lock
}

func (l *keyLocks) leave(id string, lock *keyLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lock.users--; lock.users == 0 {
		delete(l.held, id)
	}
}
