// Package guard runs goroutines that cannot end their process. The first process
// of a sandbox must not end by a defect in one of its goroutines, because the
// sandbox ends with it. What a fault means for the work at hand is its caller's
// business. A fault that Go itself calls fatal, as running out of memory, is not
// caught by anything.
package guard

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"time"
)

// Fault is a panic that was caught.
type Fault struct{ Value any }

func (f *Fault) Error() string { return fmt.Sprintf("the runner has a defect: %v", f.Value) }

// Try calls do and returns its error, or a *Fault if it panics.
func Try(do func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			fmt.Fprintf(os.Stderr, "runner: caught a panic: %v\n%s", v, debug.Stack())
			err = &Fault{Value: v}
		}
	}()
	return do()
}

// Go calls do in a goroutine. If do panics, that goroutine calls fault.
func Go(do func(), fault func(error)) { go watched(do, fault)() }

// After is time.AfterFunc for a function that may panic.
func After(d time.Duration, do func(), fault func(error)) *time.Timer {
	return time.AfterFunc(d, watched(do, fault))
}

// WhenDone is context.AfterFunc for a function that may panic.
func WhenDone(ctx context.Context, do func(), fault func(error)) (stop func() bool) {
	return context.AfterFunc(ctx, watched(do, fault))
}

// Group is a sync.WaitGroup whose goroutines may panic.
type Group struct{ all sync.WaitGroup }

// Go calls do in a goroutine. If do panics, that goroutine calls fault.
func (g *Group) Go(do func(), fault func(error)) { g.all.Go(watched(do, fault)) }

// Wait waits until all goroutines have ended.
func (g *Group) Wait() { g.all.Wait() }

// watched is do, followed by fault if it panics. A fault that panics as well has
// been told on stderr, and that is all.
func watched(do func(), fault func(error)) func() {
	return func() {
		if err := Try(func() error { do(); return nil }); err != nil {
			if err := Try(func() error { fault(err); return nil }); err != nil {
				return
			}
		}
	}
}
