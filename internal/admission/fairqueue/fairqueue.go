// Package fairqueue has owners take turns at what costs the processors of the host much:
// bodies, lists, new sandboxes. It belongs here if it decides who is next; what is worth a
// turn, and for how long, is decided by those who do it.
package fairqueue

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Queue bounds how much is done at once, and has owners take turns when that is not
// enough: an owner's next thing waits for one of each other owner at most, however many
// those have asked for. It is for work that takes milliseconds of a processor, and not for
// what waits for a program or a client. Its methods may be called concurrently.
type Queue struct {
	places   int
	perOwner int

	mu     sync.Mutex
	taken  int               // guarded by mu
	owners map[string]*share // guarded by mu; of those that have a place or wait for one
	turns  []string          // guarded by mu; those that wait, the next one first
}

// share is what one owner has. It is guarded by the queue's mu.
type share struct {
	taken   int
	waiting []chan struct{} // closed when the place is its
}

// New returns a queue for so many places, of which one owner can have perOwner. There is at
// least one.
func New(places, perOwner int) *Queue {
	return &Queue{places: max(places, 1), perOwner: max(perOwner, 1), owners: map[string]*share{}}
}

// Enter takes a place for owner, and waits for one while there is none. Whoever got one
// calls Leave. It fails only when ctx ends first.
func (q *Queue) Enter(ctx context.Context, owner string) error {
	ready := q.enter(owner)
	if ready == nil {
		return nil
	}
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		q.giveUp(owner, ready)
		return ctx.Err()
	}
}

// EnterWithin is Enter for at most so long. It reports whether there was a place.
func (q *Queue) EnterWithin(patience time.Duration, owner string) bool {
	ready := q.enter(owner)
	if ready == nil {
		return true
	}
	over := time.NewTimer(patience)
	defer over.Stop()
	select {
	case <-ready:
		return true
	case <-over.C:
		q.giveUp(owner, ready)
		return false
	}
}

// enter takes a place and returns nil, or returns what is closed once there is one.
func (q *Queue) enter(owner string) chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	own := q.owners[owner]
	if own == nil {
		own = &share{}
		q.owners[owner] = own
	}
	// While a place is free, only those wait who have all that they can have.
	if q.taken < q.places && own.taken < q.perOwner {
		q.taken++
		own.taken++
		return nil
	}
	ready := make(chan struct{})
	if own.waiting = append(own.waiting, ready); len(own.waiting) == 1 {
		q.turns = append(q.turns, owner)
	}
	return ready
}

// Leave gives a place of owner back.
func (q *Queue) Leave(owner string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.leave(owner)
}

// leave is Leave. The caller holds mu.
func (q *Queue) leave(owner string) {
	q.taken--
	q.owners[owner].taken--
	for i, next := range q.turns {
		own := q.owners[next]
		if own.taken == q.perOwner {
			continue
		}
		q.taken++
		own.taken++
		close(own.waiting[0])
		own.waiting = own.waiting[1:]
		q.turns = slices.Delete(q.turns, i, i+1)
		if len(own.waiting) > 0 {
			q.turns = append(q.turns, next)
		}
		break
	}
	q.forget(owner)
}

// giveUp is for one who waits no longer, and may have got a place just now.
func (q *Queue) giveUp(owner string, ready chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	own := q.owners[owner]
	at := slices.Index(own.waiting, ready)
	if at < 0 {
		q.leave(owner)
		return
	}
	if own.waiting = slices.Delete(own.waiting, at, at+1); len(own.waiting) == 0 {
		at := slices.Index(q.turns, owner)
		q.turns = slices.Delete(q.turns, at, at+1)
	}
	q.forget(owner)
}

// forget drops an owner who has nothing. The caller holds mu.
func (q *Queue) forget(owner string) {
	if own := q.owners[owner]; own.taken == 0 && len(own.waiting) == 0 {
		delete(q.owners, owner)
	}
}
