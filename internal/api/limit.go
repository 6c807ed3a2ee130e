package api

import (
	"cmp"
	"math"
	"sync"

	"golang.org/x/time/rate"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// rates holds one token bucket per owner, over all routes and keys. Owners come
// from valid keys only, so there are no more buckets than keys.
type rates struct {
	quotas auth.Quotas

	mu      sync.Mutex
	buckets map[string]*rate.Limiter // guarded by mu
}

func newRates(quotas auth.Quotas) *rates {
	return &rates{quotas: quotas, buckets: make(map[string]*rate.Limiter)}
}

// take counts one request of p, or refuses it.
func (r *rates) take(p auth.Principal) error {
	quota := r.quotas.QuotaOf(p)
	if quota.RequestsPerSecond <= 0 || r.bucket(p.Owner, quota).Allow() {
		return nil
	}
	return errdefs.New(errdefs.ResourceExhausted, "over the limit of %g requests per second for this key; wait and try again", quota.RequestsPerSecond)
}

// bucket returns an owner's bucket with the quota of now.
func (r *rates) bucket(owner string, quota auth.Quota) *rate.Limiter {
	limit := rate.Limit(quota.RequestsPerSecond)
	burst := cmp.Or(quota.Burst, int(math.Ceil(quota.RequestsPerSecond)))
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.buckets[owner]
	if b == nil {
		b = rate.NewLimiter(limit, burst)
		r.buckets[owner] = b
	}
	if b.Limit() != limit {
		b.SetLimit(limit)
	}
	if b.Burst() != burst {
		b.SetBurst(burst)
	}
	return b
}
