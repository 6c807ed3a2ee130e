package relay

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandkasten/sandkasten/internal/protection"
)

// Budget bounds what all relays of a daemon carry together, for each connection takes
// descriptors of the one process. An owner may have a part of it, and while it is used up
// those who have less than an equal share still get room: of who has the most, what was
// idle for the longest time ends.
type Budget struct {
	most, perOwner int
	refused        atomic.Int64

	mu       sync.Mutex
	open     int                 // guarded by mu
	accounts map[string]*account // guarded by mu; of owners who have something open
}

// account is what the relays of one owner carry.
type account struct {
	held map[*lease]struct{}

	idle []*lease  // some of held, the one with the longest silence last
	seen time.Time // when idle was looked up
}

// lease is the place of one connection, or flow of UDP.
type lease struct {
	owner string
	used  atomic.Int64 // when bytes passed last, in nanoseconds of Unix time
	end   func()       // ends the connection, and may be called more than once
}

// idleLease is for how long nothing passed on a connection that ends for another one of
// its own owner.
const idleLease = 10 * time.Second

// NewBudget returns one of so many connections, and so many of one owner: both at least 1.
func NewBudget(most, perOwner int) *Budget {
	return &Budget{most: most, perOwner: min(perOwner, most), accounts: make(map[string]*account)}
}

// Limits are the numbers of connections of all relays, and of one owner's.
func (b *Budget) Limits() (most, perOwner int) { return b.most, b.perOwner }

// Open is how many connections there are, and Refused how many there was no room for.
func (b *Budget) Open() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open
}

// Refused is how many connections found no room, ever.
func (b *Budget) Refused() int64 { return b.refused.Load() }

// take returns a place for a connection of an owner, which end ends, or nil if there is
// none. A nil budget has places for all.
func (b *Budget) take(owner string, end func()) *lease {
	l := &lease{owner: owner, end: end}
	l.touch()
	if b == nil || protection.Off(protection.OwnerShare) {
		return l
	}
	b.mu.Lock()
	out, ok := b.room(owner)
	if ok {
		if b.accounts[owner] == nil {
			b.accounts[owner] = &account{held: make(map[*lease]struct{})}
		}
		b.accounts[owner].held[l] = struct{}{}
		b.open++
	}
	b.mu.Unlock()
	if out != nil {
		out.end()
	}
	if !ok {
		b.refused.Add(1)
		return nil
	}
	return l
}

// room makes room for one connection of an owner. It returns the place that it has taken
// for that from somebody, which the caller ends without mu. The caller holds mu.
func (b *Budget) room(owner string) (out *lease, ok bool) {
	own := 0
	if a := b.accounts[owner]; a != nil {
		own = len(a.held)
	}
	owners := len(b.accounts)
	if own == 0 {
		owners++
	}
	switch {
	case own < b.perOwner && b.open < b.most:
		return nil, true
	case own < b.perOwner && own < b.most/owners:
		out = b.accounts[b.largest()].idlest() // who has more than that, since all is taken
	case own > 0:
		if out = b.accounts[owner].idlest(); time.Since(out.last()) < idleLease {
			return nil, false
		}
	default:
		return nil, false
	}
	b.give(out)
	return out, true
}

// largest is the owner who has the most. The caller holds mu.
func (b *Budget) largest() (owner string) {
	most := -1
	for name, a := range b.accounts {
		if len(a.held) > most {
			owner, most = name, len(a.held)
		}
	}
	return owner
}

// lookEvery is how often all places of an owner are compared at most: whoever asks for
// more again and again does not have the daemon do so each time.
const lookEvery = time.Second

// idlest is the place on which nothing passed for the longest time, as far as the last
// look tells: one on which something passed since is taken where there is no other. The
// account holds some.
func (a *account) idlest() *lease {
	if time.Since(a.seen) >= lookEvery {
		a.seen = time.Now()
		a.idle = slices.SortedFunc(maps.Keys(a.held), func(x, y *lease) int { return cmp.Compare(y.used.Load(), x.used.Load()) })
	}
	for len(a.idle) > 0 {
		l := a.idle[len(a.idle)-1]
		if _, held := a.held[l]; held && l.last().Before(a.seen) {
			return l
		}
		a.idle = a.idle[:len(a.idle)-1]
	}
	for l := range a.held {
		return l
	}
	return nil
}

// leave gives a place back. It may be called more than once.
func (b *Budget) leave(l *lease) {
	if b == nil || l == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.give(l)
}

// give gives a place back. The caller holds mu.
func (b *Budget) give(l *lease) {
	a := b.accounts[l.owner]
	if a == nil {
		return
	}
	if _, held := a.held[l]; !held {
		return
	}
	delete(a.held, l)
	b.open--
	if len(a.held) == 0 {
		delete(b.accounts, l.owner)
	}
}

// touch notes that bytes pass.
func (l *lease) touch() { l.used.Store(time.Now().UnixNano()) }

func (l *lease) last() time.Time { return time.Unix(0, l.used.Load()) }
