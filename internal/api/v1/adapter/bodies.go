package adapter

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// A body is in memory as a whole, and a few times over while it is decoded. So
// there is a bound on what all that are under way have, in bytes of their
// lengths as announced.
const (
	bodiesTotal    = 64 << 20
	bodiesPerOwner = bodiesTotal / 2
	bodyPatience   = 5 * time.Second // of a request that is over it
	smallBody      = 64 << 10        // and less does not count: requests under way have a bound of their own
)

// bodies counts the bytes of large bodies. Owners come from valid keys only.
type bodies struct {
	mu      sync.Mutex
	total   int64            // guarded by mu
	owned   map[string]int64 // guarded by mu; without those that have none
	changed chan struct{}    // guarded by mu; closed when there is less
}

func newBodies() *bodies {
	return &bodies{owned: make(map[string]int64), changed: make(chan struct{})}
}

// take counts n bytes of owner until give is called, which may be called twice.
// When that is too much it waits for a while, and then refuses.
func (b *bodies) take(ctx context.Context, owner string, n int64) (give func(), err error) {
	if n < smallBody {
		return func() {}, nil
	}
	over := time.NewTimer(bodyPatience)
	defer over.Stop()
	for {
		changed, err := b.try(owner, n)
		if err == nil {
			return sync.OnceFunc(func() { b.give(owner, n) }), nil
		}
		select {
		case <-changed:
		case <-over.C:
			return nil, err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// try counts n bytes, or says why it does not and what to wait for.
func (b *bodies) try(owner string, n int64) (changed <-chan struct{}, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	// One alone is always let through.
	case b.owned[owner] > 0 && b.owned[owner]+n > bodiesPerOwner:
		return b.changed, errdefs.New(errdefs.ResourceExhausted, "requests of this key with %d bytes of JSON are under way, and %d is its limit; wait for one to end, or send files by PUT fs/raw", b.owned[owner], int64(bodiesPerOwner))
	case b.total > 0 && b.total+n > bodiesTotal:
		return b.changed, errdefs.New(errdefs.Unavailable, "requests of all keys with %d bytes of JSON are under way, and %d is the daemon's limit; try again, or send files by PUT fs/raw", b.total, int64(bodiesTotal))
	}
	b.owned[owner] += n
	b.total += n
	return nil, nil
}

func (b *bodies) give(owner string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.total -= n
	if b.owned[owner] -= n; b.owned[owner] == 0 {
		delete(b.owned, owner)
	}
	close(b.changed)
	b.changed = make(chan struct{})
}

type decodedKey struct{}

// serve has handle answer a request of op while its body is counted. What waits
// for a program does not count any more once its body has been decoded.
func (b *bodies) serve(w http.ResponseWriter, r *http.Request, op *huma.Operation, class api.Class, handle func(http.ResponseWriter, *http.Request)) {
	n := r.ContentLength
	if n < 0 {
		n = op.MaxBodyBytes - 1
	}
	give, err := b.take(r.Context(), api.From(r.Context()).Owner, n)
	if err != nil {
		api.WriteError(w, r, err)
		return
	}
	defer give()
	if class == api.Long {
		r = r.WithContext(context.WithValue(r.Context(), decodedKey{}, give))
	}
	handle(w, r)
}

// decoded says that the body of ctx's request has been decoded.
func decoded(ctx context.Context) {
	if give, ok := ctx.Value(decodedKey{}).(func()); ok {
		give()
	}
}
