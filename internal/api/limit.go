package api

import (
	"cmp"
	"math"
	"sync"

	"golang.org/x/time/rate"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// Rate bounds how often an owner may ask.
type Rate struct {
	PerSecond float64 // on average; 0 is no limit
	Burst     int     // at once before the rate counts; 0 is PerSecond
}

// or fills what is zero in r from general.
func (r Rate) or(general Rate) Rate {
	return Rate{cmp.Or(r.PerSecond, general.PerSecond), cmp.Or(r.Burst, general.Burst)}
}

// rates holds one token bucket per owner. Owners come from valid keys only,
// so there are no more buckets than keys.
type rates struct {
	general Rate
	of      map[string]Rate

	mu      sync.Mutex
	buckets map[string]*rate.Limiter // guarded by mu
}

func newRates(general Rate, of map[string]Rate) *rates {
	return &rates{general: general, of: of, buckets: make(map[string]*rate.Limiter)}
}

// take counts one request of owner, or refuses it.
func (r *rates) take(owner string) error {
	limit := r.of[owner].or(r.general)
	if limit.PerSecond <= 0 || r.bucket(owner, limit).Allow() {
		return nil
	}
	return errdefs.New(errdefs.ResourceExhausted, "over the limit of %g requests per second for this key; wait and try again", limit.PerSecond)
}

func (r *rates) bucket(owner string, limit Rate) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.buckets[owner]
	if b == nil {
		b = rate.NewLimiter(rate.Limit(limit.PerSecond), cmp.Or(limit.Burst, int(math.Ceil(limit.PerSecond))))
		r.buckets[owner] = b
	}
	return b
}
