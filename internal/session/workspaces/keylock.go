package workspaces

import (
	"context"
	"sync"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// keyLock is a lock for each key, which may be held across I/O.
type keyLock struct {
	mu   sync.Mutex
	held map[string]chan struct{} // guarded by mu; closed when it is held no more
}

// lock waits for a key's lock. Whoever gets it calls unlock once.
func (l *keyLock) lock(ctx context.Context, key string) (unlock func(), err error) {
	for {
		held := l.try(key)
		if held == nil {
			return func() { l.unlock(key) }, nil
		}
		select {
		case <-held:
		case <-ctx.Done():
			return nil, errdefs.Wrap(ctx.Err(), errdefs.Unavailable, "it is busy; try again")
		}
	}
}

// try takes the lock and returns nil, or what its holder closes.
func (l *keyLock) try(key string) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if held, ok := l.held[key]; ok {
		return held
	}
	if l.held == nil {
		l.held = make(map[string]chan struct{})
	}
	l.held[key] = make(chan struct{})
	return nil
}

func (l *keyLock) unlock(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.held[key])
	delete(l.held, key)
}
