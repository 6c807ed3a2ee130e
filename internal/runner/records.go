package runner

import (
	"slices"
	"sync"
	"time"

	"github.com/sandkasten/sandkasten/internal/guard"
	"github.com/sandkasten/sandkasten/internal/runner/output"
	"github.com/sandkasten/sandkasten/protocol"
)

// records remembers execs: all that have not ended, and those that have for a
// bounded time and number.
type records struct {
	budget output.Budget

	mu     sync.Mutex
	byID   map[string]*exec // guarded by mu, as all below
	order  []*exec          // oldest first
	expiry *time.Timer      // nil while nothing waits to be forgotten
	closed bool
}

func newRecords() *records {
	r := &records{byID: make(map[string]*exec)}
	r.budget.Max = outputTotal
	r.budget.Evict = r.evict
	return r
}

// add registers an exec. Its id must be new.
func (r *records) add(e *exec) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.byID[e.req.ID]; ok {
		return protocol.Refuse(protocol.CodeExists, "an exec with id %q exists", e.req.ID)
	}
	r.byID[e.req.ID] = e
	r.order = append(r.order, e)
	r.forget(time.Now())
	return nil
}

func (r *records) get(id string) (*exec, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.byID[id]
	if !ok {
		return nil, protocol.Refuse(protocol.CodeNotFound, "no exec with id %q; a record is kept for %v after the end, of the last %d execs", id, recordLife, maxRecords).Because(protocol.ReasonNoSuchExec)
	}
	return e, nil
}

// all returns all execs, oldest first.
func (r *records) all() []*exec {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.order)
}

// remove drops an exec that never ran.
func (r *records) remove(e *exec) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.delete(e)
}

// ended starts the clock for an exec that has just ended.
func (r *records) ended() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.expiry == nil && !r.closed {
		r.expiry = guard.After(recordLife, r.expire, r.expireLater)
	}
}

// expire forgets what is too old, and comes back for the rest.
func (r *records) expire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expiry = nil
	now := time.Now()
	r.forget(now)
	for _, e := range r.order {
		if at := e.endedAt(); !at.IsZero() && !r.closed {
			r.expiry = guard.After(at.Add(recordLife).Sub(now), r.expire, r.expireLater)
			return
		}
	}
}

// expireLater has the next end of an exec start the clock again after a fault.
func (r *records) expireLater(error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expiry = nil
}

// forget drops the ended execs that are too old or too many. r.mu is held.
func (r *records) forget(now time.Time) {
	var over []*exec
	ended := 0
	for i := len(r.order) - 1; i >= 0; i-- { // the newest are kept
		e := r.order[i]
		at := e.endedAt()
		if at.IsZero() {
			continue
		}
		if ended++; ended > maxRecords || now.Sub(at) >= recordLife {
			over = append(over, e)
		}
	}
	for _, e := range over {
		r.delete(e)
		e.out.Discard()
	}
}

func (r *records) delete(e *exec) {
	delete(r.byID, e.req.ID)
	for i, other := range r.order {
		if other == e {
			r.order = append(r.order[:i], r.order[i+1:]...)
			return
		}
	}
}

// evict drops the output of the exec that ended first, though not its record,
// and reports whether that freed anything.
func (r *records) evict() bool {
	r.mu.Lock()
	var victim *exec
	for _, e := range r.order {
		if !e.endedAt().IsZero() && e.out.Memory() > 0 {
			victim = e
			break
		}
	}
	r.mu.Unlock()
	if victim == nil {
		return false
	}
	victim.out.Discard()
	return true
}

// close stops the clock.
func (r *records) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.expiry != nil {
		r.expiry.Stop()
	}
}
