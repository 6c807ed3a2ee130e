package api

import (
	"math"
	"sync"

	"golang.org/x/time/rate"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// rates holds one token bucket per owner. Owners come from valid keys only,
// so there are no more buckets than keys.
type rates struct {
	limit rate.Limit
	burst int

	mu      sync.Mutex
	buckets map[string]*rate.Limiter // guarded by mu
}

func newRates(perSecond float64, burst int) *rates {
	if perSecond <= 0 {
		return &rates{}
	}
	if burst <= 0 {
		burst = int(math.Ceil(perSecond))
	}
	return &rates{limit: rate.Limit(perSecond), burst: burst, buckets: make(map[string]*rate.Limiter)}
}

// take counts one request of owner, or refuses it.
func (r *rates) take(owner string) error {
	if r.limit == 0 {
		return nil
	}
	if r.bucket(owner).Allow() {
		return nil
	}
	return errdefs.New(errdefs.ResourceExhausted, "over the limit of %g requests per second for one key; wait and try again", float64(r.limit))
}

func (r *rates) bucket(owner string) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.buckets[owner]
	if b == nil {
		b = rate.NewLimiter(r.limit, r.burst)
		r.buckets[owner] = b
	}
	return b
}
