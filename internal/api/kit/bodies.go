package kit

import (
	"context"
	"sync"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// A body is in memory as a whole, and a few times over while it is decoded. So
// there is a bound on what all that are under way have, in bytes of their
// lengths as announced. What waits for a program keeps what that was told, maybe
// for hours: such requests of one owner are bounded apart, and do not stand in the
// way of others'.
const (
	bodiesTotal    = 64 << 20
	bodiesPerOwner = bodiesTotal / 2
	heldPerOwner   = 64 << 20
	bodyPatience   = 5 * time.Second // of a request that is over it
	smallBody      = 64 << 10        // and less does not count: requests under way have a bound of their own
)

// bodies counts the bytes of large bodies. Owners come from valid keys only.
type bodies struct {
	most     int64 // of all owners; 0 is any number
	perOwner int64
	patience time.Duration
	instead  string // what an error says to do, behind "or"

	mu      sync.Mutex
	total   int64            // guarded by mu
	owned   map[string]int64 // guarded by mu; without those that have none
	changed chan struct{}    // guarded by mu; closed when there is less
}

func newBodies(most, perOwner int64, patience time.Duration, instead string) *bodies {
	if instead != "" {
		instead = ", or " + instead
	}
	return &bodies{instead: instead, most: most, perOwner: perOwner, patience: patience, owned: make(map[string]int64), changed: make(chan struct{})}
}

// taken is what one body has of bodies. One goroutine uses it.
type taken struct {
	of    *bodies
	owner string
	bytes int64
}

// keep gives back what is more than n bytes.
func (t *taken) keep(n int64) {
	if n < smallBody {
		n = 0
	}
	if more := t.bytes - n; more > 0 {
		t.of.give(t.owner, more)
		t.bytes = n
	}
}

// end gives back all. It may be called twice.
func (t *taken) end() { t.keep(0) }

// take counts n bytes of owner until they are given back. When that is too much it waits for a while, and
// then refuses.
func (b *bodies) take(ctx context.Context, owner string, n int64) (*taken, error) {
	if n < smallBody {
		return &taken{}, nil
	}
	over := time.NewTimer(b.patience)
	defer over.Stop()
	for {
		changed, err := b.try(owner, n)
		if err == nil {
			return &taken{b, owner, n}, nil
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
	case b.owned[owner] > 0 && b.owned[owner]+n > b.perOwner:
		return b.changed, errdefs.New(errdefs.ResourceExhausted, "requests of this key with %d bytes of JSON are under way, and %d is its limit; wait for one to end%s", b.owned[owner], b.perOwner, b.instead)
	case b.most > 0 && b.total > 0 && b.total+n > b.most:
		return b.changed, errdefs.New(errdefs.Unavailable, "requests of all keys with %d bytes of JSON are under way, and %d is the daemon's limit; try again%s", b.total, b.most, b.instead)
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

// counts bounds the bodies of requests under way.
type counts struct {
	decoding *bodies
	held     *bodies // by requests that wait for programs
}

func newCounts(instead string) counts {
	return counts{newBodies(bodiesTotal, bodiesPerOwner, bodyPatience, instead), newBodies(0, heldPerOwner, 0, instead)}
}

// begin counts the body of a request until the charge ends. That of one which waits for a
// program is held from here on: what is refused for that has cost no decoding.
func (c counts) begin(ctx context.Context, owner string, n int64, class api.Class) (*charge, error) {
	charged := &charge{class: class, held: &taken{}}
	var err error
	if class == api.Long {
		if charged.held, err = c.held.take(ctx, owner, n); err != nil {
			return nil, err
		}
	}
	if charged.decoding, err = c.decoding.take(ctx, owner, n); err != nil {
		charged.held.end()
		return nil, err
	}
	return charged, nil
}

// charge is one body that is counted.
type charge struct {
	class          api.Class
	decoding, held *taken
}

// decoded is called when the body has been, and had n bytes: from then on no more than that
// counts, and only as held if its request waits for a program.
func (c *charge) decoded(n int64) {
	c.held.keep(n)
	if c.decoding.keep(n); c.class == api.Long {
		c.decoding.end()
	}
}

func (c *charge) end() {
	c.decoding.end()
	c.held.end()
}
