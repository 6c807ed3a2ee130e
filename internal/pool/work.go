package pool

import (
	"context"
	"slices"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
)

const (
	// A session that was just created wants the processors for itself: nothing
	// is made until nobody has come for calm. Where sessions do not cease to come
	// a full pool waits for patience, and one that is down to the reserve no
	// longer than calm.
	calm     = 50 * time.Millisecond
	patience = 2 * time.Second
	reserve  = 0.25 // of what is wanted

	// recovery is how long nothing is made after the host was short.
	recovery = 30 * time.Second

	firstRetry = time.Second // after a failure, doubled up to
	lastRetry  = time.Minute
)

// backoff is when something that failed is tried again.
type backoff struct {
	pause time.Duration
	at    time.Time
}

func (b *backoff) failed(now time.Time) {
	b.pause = min(max(2*b.pause, firstRetry), lastRetry)
	b.at = now.Add(b.pause)
}

// step makes or destroys one sandbox, if there is one to be made or destroyed,
// and rests from it.
func (p *Pool) step(ctx context.Context) (worked bool) {
	if !p.awaitCalm(ctx) {
		return false
	}
	work := p.next(p.opts.Room(ctx), time.Now())
	if work == nil {
		return false
	}
	began := time.Now()
	work(ctx)
	took := time.Since(began)
	return pause(ctx, time.Duration(float64(took)*(1-p.opts.CPU)/p.opts.CPU))
}

// awaitCalm waits until no session has been created for a moment, and reports
// whether to go on.
func (p *Pool) awaitCalm(ctx context.Context) bool {
	for began := time.Now(); ; {
		now := time.Now()
		p.mu.Lock()
		left := calm - now.Sub(p.claimedAt)
		longest := max(time.Duration(float64(patience)*(p.stock(now)-reserve)/(1-reserve)), calm)
		p.mu.Unlock()
		if left <= 0 || now.Sub(began) >= longest {
			break
		}
		if !pause(ctx, left) {
			return false
		}
	}
	return ctx.Err() == nil
}

// pause waits and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return ctx.Err() == nil
	}
}

// next returns the most urgent thing to do, or nil. What the host is short of
// comes before what is wanted.
func (p *Pool) next(short error, now time.Time) func(context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.short = ""
	if short != nil {
		p.short, p.roomAt = errdefs.MessageOf(short), now.Add(recovery)
	}
	if len(p.discards) > 0 && !now.Before(p.removals.at) {
		id := p.discards[0]
		p.discards = p.discards[1:]
		return func(ctx context.Context) { p.destroy(ctx, id) }
	}
	if s := p.surplus(now); s != nil {
		oldest := s.ready[0]
		s.ready = s.ready[1:]
		p.opts.Changed()
		return func(ctx context.Context) { p.destroy(ctx, oldest) }
	}
	if s := p.nextShelf(now); s != nil {
		spec, key := s.spec, s.key
		return func(ctx context.Context) { p.make(ctx, s, spec, key) }
	}
	return nil
}

// wanted is how many are to be ready.
func (s *shelf) wanted(now time.Time) int {
	if s.size == Auto {
		return s.demand.peak(now)
	}
	return s.size
}

// stock is the part of what is wanted that is ready, 1 or more where nothing lacks.
func (s *shelf) stock(now time.Time) float64 {
	want := s.wanted(now)
	if want == 0 {
		return 1
	}
	return float64(len(s.ready)) / float64(want)
}

// surplus returns a shelf that has more than is wanted, or while the host is
// short the one that has the most, or nil.
func (p *Pool) surplus(now time.Time) *shelf {
	var fullest *shelf
	for _, s := range p.shelves {
		if len(s.ready) > s.wanted(now) {
			return s
		}
		if p.short != "" && len(s.ready) > 0 && (fullest == nil || len(s.ready) > len(fullest.ready)) {
			fullest = s
		}
	}
	return fullest
}

// stock is the part of what is wanted that is ready of the image that lacks the
// most. The caller holds mu.
func (p *Pool) stock(now time.Time) float64 {
	least := 1.0
	for _, s := range p.shelves {
		if s.key != "" {
			least = min(least, s.stock(now))
		}
	}
	return least
}

// nextShelf returns the shelf that lacks the largest part of what is wanted, or
// nil if nothing is to be made.
func (p *Pool) nextShelf(now time.Time) *shelf {
	if now.Before(p.roomAt) || p.readyNow() >= p.opts.MaxReady {
		return nil
	}
	var next *shelf
	least := 1.0
	for _, s := range p.shelves {
		if s.key == "" || now.Before(s.retry.at) {
			continue
		}
		if has := s.stock(now); has < least {
			next, least = s, has
		}
	}
	return next
}

// readyNow counts what is ready. The caller holds mu.
func (p *Pool) readyNow() int {
	n := 0
	for _, s := range p.shelves {
		n += len(s.ready)
	}
	return n
}

// make makes one for s, which may have come to want another kind meanwhile.
func (p *Pool) make(ctx context.Context, s *shelf, spec runtime.Spec, key string) {
	making, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	id := p.newID(key)
	began := time.Now()
	_, err := p.opts.Driver.Create(making, id, spec)
	took := time.Since(began)
	if err == nil {
		err = p.ping(making, id) // the first answer is the slowest: now nobody waits for it
		if err != nil {
			p.discard(id)
		}
	}
	if err != nil && ctx.Err() != nil {
		return // it was not finished, and is nobody's fault
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err != nil:
		s.err = errdefs.MessageOf(err)
		s.retry.failed(time.Now())
		p.opts.Log.WarnContext(ctx, "cannot make a ready sandbox", "image", s.image, "again_in", s.retry.pause, "err", err)
	case s.key != key:
		p.discards = append(p.discards, id)
	default:
		s.err, s.retry = "", backoff{}
		s.ready = append(s.ready, id)
		s.made++
		s.making += took
		p.refills.Observe(took.Seconds())
	}
	p.opts.Changed()
}

// destroy removes a sandbox, or has it tried again.
func (p *Pool) destroy(ctx context.Context, id runtime.ID) {
	removing, cancel := context.WithTimeout(ctx, destroyTimeout)
	defer cancel()
	err := p.opts.Driver.Destroy(removing, id)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.removals = backoff{}
		return
	}
	p.discards = append(p.discards, id)
	p.removals.failed(time.Now())
	if ctx.Err() == nil {
		p.opts.Log.WarnContext(ctx, "cannot remove a ready sandbox", "sandbox", id, "again_in", p.removals.pause, "err", err)
	}
}

// remove takes one sandbox from a shelf, and reports whether it was there.
func (p *Pool) remove(s *shelf, id runtime.ID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(s.ready, id)
	if i < 0 {
		return false
	}
	s.ready = slices.Delete(s.ready, i, i+1)
	p.opts.Changed()
	return true
}
