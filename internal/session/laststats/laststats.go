// Package laststats keeps what sandboxes used when they were asked last, so that a list
// of many costs little and waits for none that is slow.
package laststats

import (
	"context"
	"sync"
	"time"

	"github.com/sandkasten/sandkasten/internal/runtime"
)

// The bounds of asking.
const (
	Fresh    = 3 * time.Second        // a reading is not taken again before
	Patience = 300 * time.Millisecond // that a caller waits for new readings
	Timeout  = 5 * time.Second        // of one sandbox
	AtOnce   = 8
)

// Reading is what a sandbox used at a time.
type Reading struct {
	runtime.Stats
	At time.Time
}

// Last is the last reading of one sandbox. Its zero value has none.
type Last struct {
	mu      sync.Mutex
	reading Reading // guarded by mu
	asking  bool    // guarded by mu
}

// Get returns the last reading; its time is zero if there is none.
func (l *Last) Get() Reading {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reading
}

// begin reports whether it is time to ask, and nobody does.
func (l *Last) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asking || time.Since(l.reading.At) < Fresh {
		return false
	}
	l.asking = true
	return true
}

func (l *Last) end(s runtime.Stats, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asking = false
	if err == nil {
		l.reading = Reading{s, time.Now()}
	}
}

// Sandbox is what can be asked.
type Sandbox interface {
	Stats(ctx context.Context) (runtime.Stats, error)
}

// Subject is a sandbox to ask. Without one there is no reading.
type Subject struct {
	Last    *Last
	Sandbox Sandbox
}

// Asker asks sandboxes, a few at once.
type Asker struct{ slots chan struct{} }

// New returns an Asker.
func New() *Asker { return &Asker{slots: make(chan struct{}, AtOnce)} }

// Readings returns the last reading of each subject, after asking those that are old. The time of what is
// not known is zero.
func (a *Asker) Readings(ctx context.Context, subjects []Subject) []Reading {
	a.refresh(ctx, subjects)
	found := make([]Reading, len(subjects))
	for i, s := range subjects {
		if s.Sandbox != nil {
			found[i] = s.Last.Get()
		}
	}
	return found
}

// refresh asks those whose reading is old, and returns when all have answered or after
// Patience. The others are asked on, for later callers.
func (a *Asker) refresh(ctx context.Context, subjects []Subject) {
	var asked []Subject
	for _, s := range subjects {
		if s.Sandbox != nil && s.Last.begin() {
			asked = append(asked, s)
		}
	}
	if len(asked) == 0 {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.ask(context.WithoutCancel(ctx), asked)
	}()
	patience := time.NewTimer(Patience)
	defer patience.Stop()
	select {
	case <-done:
	case <-patience.C:
	case <-ctx.Done():
	}
}

func (a *Asker) ask(ctx context.Context, subjects []Subject) {
	var asking sync.WaitGroup
	for _, s := range subjects {
		a.slots <- struct{}{}
		asking.Go(func() {
			defer func() { <-a.slots }()
			ctx, cancel := context.WithTimeout(ctx, Timeout)
			defer cancel()
			s.Last.end(s.Sandbox.Stats(ctx))
		})
	}
	asking.Wait()
}
