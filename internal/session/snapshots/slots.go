package snapshots

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// slots bounds how many snapshots are made at once: of all owners, and of one,
// for whom one less is left so that nobody has them all. What gets free goes to
// who has the least, and among those to who waits longest.
type slots struct {
	all, each int
	patience  time.Duration // of who waits

	mu      sync.Mutex
	taken   int            // guarded by mu
	held    map[string]int // guarded by mu; of taken, by owner
	waiting []*waiter      // guarded by mu; the first waits longest
}

type waiter struct {
	owner string
	given chan struct{} // closed when it has a slot
}

// maxWaiting is how many snapshots of one owner may wait.
const maxWaiting = 16

func newSlots(all int, patience time.Duration) *slots {
	return &slots{all: all, each: max(all-1, 1), patience: patience, held: map[string]int{}}
}

// take waits for a slot. It is the caller's until done is called.
func (s *slots) take(ctx context.Context, owner string) (done func(), err error) {
	w, err := s.join(owner)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	select {
	case <-w.given:
	case <-ctx.Done():
		if s.leave(w) {
			return nil, errdefs.Wrap(ctx.Err(), errdefs.Unavailable, "other snapshots are being made, at most %d at once with one key and %d in all; try again later", s.each, s.all)
		}
	}
	return func() { s.giveBack(owner) }, nil
}

func (s *slots) join(owner string) (*waiter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, w := range s.waiting {
		if w.owner == owner {
			n++
		}
	}
	if n >= maxWaiting {
		return nil, errdefs.New(errdefs.ResourceExhausted, "%d snapshots of this key wait to be made, which is the maximum; wait for one", maxWaiting)
	}
	w := &waiter{owner: owner, given: make(chan struct{})}
	s.waiting = append(s.waiting, w)
	s.give()
	return w, nil
}

// leave gives up waiting. It reports false if there is a slot after all.
func (s *slots) leave(w *waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.waiting, w)
	if i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	}
	return i >= 0
}

func (s *slots) giveBack(owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if s.held[owner]--; s.held[owner] == 0 {
		delete(s.held, owner)
	}
	s.give()
}

// give hands out what is free. The caller holds mu.
func (s *slots) give() {
	for s.taken < s.all {
		next := -1
		for i, w := range s.waiting {
			if n := s.held[w.owner]; n < s.each && (next < 0 || n < s.held[s.waiting[next].owner]) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		w := s.waiting[next]
		s.waiting = slices.Delete(s.waiting, next, next+1)
		s.taken++
		s.held[w.owner]++
		close(w.given)
	}
}

// alone takes all slots if none is taken, until done is called.
func (s *slots) alone() (done func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken > 0 {
		return nil, false
	}
	s.taken = s.all
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.taken = 0
		s.give()
	}, true
}
