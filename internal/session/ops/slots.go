package ops

import (
	"context"
	"sync"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
)

// maxFileSlots bounds the operations on files at once in one session. Each holds a
// connection to the runner, which has 256 for everything.
const maxFileSlots = 64

// fileSlots counts the operations on files in progress.
type fileSlots struct {
	mu    sync.Mutex
	taken map[Session]int // guarded by mu; sessions with none have no entry
}

// take counts one more operation until release is called.
func (f *fileSlots) take(s Session) (release func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.taken[s] == maxFileSlots {
		return nil, errdefs.New(errdefs.ResourceExhausted, "the session has %d operations on files in progress, which is the limit; wait for one to end", maxFileSlots)
	}
	if f.taken == nil {
		f.taken = make(map[Session]int)
	}
	f.taken[s]++
	return func() { f.release(s) }, nil
}

func (f *fileSlots) release(s Session) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.taken[s]--; f.taken[s] == 0 {
		delete(f.taken, s)
	}
}

// begin begins an operation on files, for which it takes a slot.
func (f *Files) begin(ctx context.Context, s Session) (runner *runnerclient.Client, end func(), err error) {
	runner, endUse, err := s.Begin(ctx)
	if err != nil {
		return nil, nil, err
	}
	release, err := f.slots.take(s)
	if err != nil {
		endUse()
		return nil, nil, err
	}
	return runner, func() { release(); endUse() }, nil
}
