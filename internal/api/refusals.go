package api

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// An owner's refusals with 429 are answered at once while they are few. Clients wait as long
// as Retry-After says; those that do not would have the daemon refuse them thousands of times
// in a second, and requests of others wait behind each.
const (
	refusalsPerSecond = 50
	refusalsAtOnce    = 100
	refusalPatience   = time.Second // that an answer waits at most
)

// refusals holds one token bucket per owner. Owners come from valid keys only.
type refusals struct {
	mu      sync.Mutex
	buckets map[string]*rate.Limiter // guarded by mu
}

func newRefusals() *refusals { return &refusals{buckets: make(map[string]*rate.Limiter)} }

func (f *refusals) bucket(owner string) *rate.Limiter {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.buckets[owner]
	if b == nil {
		b = rate.NewLimiter(refusalsPerSecond, refusalsAtOnce)
		f.buckets[owner] = b
	}
	return b
}

// pace returns when an owner may hear of a refusal, or when ctx ends.
func (f *refusals) pace(ctx context.Context, owner string) {
	turn := f.bucket(owner).Reserve()
	wait := turn.Delay()
	if wait == 0 {
		return
	}
	if wait > refusalPatience {
		turn.Cancel() // or the next would wait for those that did not wait to the end
		wait = refusalPatience
	}
	answer := time.NewTimer(wait)
	defer answer.Stop()
	select {
	case <-answer.C:
	case <-ctx.Done():
	}
}
