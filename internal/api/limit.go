package api

import (
	"cmp"
	"context"
	"math"
	"sync"
	"time"

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

// Charge counts a request as so many, for it does what so many do. It is refused while
// the owner has not as many to spare, or not a whole burst: what is beyond that, later
// requests wait for.
func Charge(ctx context.Context, requests int) error {
	req := From(ctx)
	if req.charge == nil || requests <= 1 {
		return nil
	}
	return req.charge(requests)
}

// take counts a request of p, or refuses it. Of one that is as many as requests it counts
// what is beside the one that was counted before.
func (h *handler) take(req *Request, p auth.Principal, requests int) error {
	wait, quota := h.rates.take(p, requests)
	if wait == 0 {
		return nil
	}
	h.under.refuse(limitRate)
	req.RetryAfter = wait
	if requests == 1 {
		return errdefs.New(errdefs.ResourceExhausted, "over the limit of %g requests per second for this key; wait and try again", quota.RequestsPerSecond)
	}
	return errdefs.New(errdefs.ResourceExhausted, "this counts as %d requests, over the limit of %g requests per second for this key; wait, or do less at once", requests, quota.RequestsPerSecond)
}

// take returns how long p has to wait if there are not as many.
func (r *rates) take(p auth.Principal, requests int) (wait time.Duration, quota auth.Quota) {
	quota = r.quotas.QuotaOf(p)
	if quota.RequestsPerSecond <= 0 {
		return 0, quota
	}
	counted := 0
	if requests > 1 {
		counted = 1
	}
	bucket := r.bucket(p.Owner, quota)
	burst := bucket.Burst()
	atOnce := min(requests, burst) - counted
	if wait = takeAll(bucket, atOnce); wait > 0 {
		// The next try counts that one again.
		return wait + time.Duration(counted)*time.Duration(float64(time.Second)/quota.RequestsPerSecond), quota
	}
	for rest := requests - counted - atOnce; rest > 0; rest -= burst {
		bucket.ReserveN(time.Now(), min(rest, burst))
	}
	return 0, quota
}

// takeAll takes so many of a bucket, or none and returns when there will be as many.
func takeAll(bucket *rate.Limiter, requests int) time.Duration {
	taken := bucket.ReserveN(time.Now(), requests)
	wait := taken.Delay()
	if wait > 0 {
		taken.Cancel()
	}
	return wait
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
