package sandkasten

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

const (
	longestPause = 30 * time.Second
	restartPause = 2 * time.Second // between attempts while a daemon may be restarting, so that its end is noticed soon
)

// patience decides how long one request, or one stream, is tried. Where the daemon
// may be restarting that is a time from the first failure on, and at least
// maxRetries times; where it says that there is too much, maxRetries times.
type patience struct {
	client   *Client
	tries    int
	since    time.Time // of the first failure
	doubtful bool      // an attempt may have been carried out
}

// progress begins anew: what came since was of use.
func (p *patience) progress() { p.tries, p.since = 0, time.Time{} }

// next is the pause before another attempt, unless there is none.
func (p *patience) next(err error) (pause time.Duration, again bool) {
	c := p.client
	var refused *APIError
	var lost *ConnectionError
	var asked time.Duration
	if errors.As(err, &refused) {
		asked = refused.RetryAfter
	}
	busy := refused != nil && refused.Status == http.StatusTooManyRequests
	if busy && asked > longestPause {
		return 0, false // as of a quota of a month: whoever asks decides
	}
	unconnected := errors.As(err, &lost)
	if unconnected && lost.Sent || !unconnected && !busy {
		p.doubtful = true
	}
	if p.since.IsZero() {
		p.since = time.Now()
	}
	grown := min(c.firstPause<<min(p.tries, 16), longestPause)
	pause = min(max(asked, grown/2+rand.N(grown/2+1)), longestPause)
	p.tries++
	if p.tries <= c.maxRetries {
		return pause, true
	}
	if busy || c.maxRetries == 0 {
		return 0, false
	}
	budget := c.retryTime
	if unconnected && !c.met.Load() {
		budget = min(budget, c.firstContact)
	}
	left := time.Until(p.since.Add(budget))
	return min(pause, restartPause, left), left > 0
}

// gone tells whether a deletion finds nothing because one of its earlier attempts
// was carried out.
func (p *patience) gone(r request, err error) bool {
	return p.doubtful && r.method == http.MethodDelete && errors.Is(err, ErrNotFound)
}

// retry attempts a request until it succeeds, or must not be repeated, or was
// repeated for long enough.
func (c *Client) retry(ctx context.Context, r request, attempt func() error) error {
	p := patience{client: c}
	for {
		err := attempt()
		if err == nil || p.gone(r, err) {
			return nil
		}
		if !r.repeatable(err) {
			return err
		}
		pause, again := p.next(err)
		if !again {
			return err
		}
		if ended := sleep(ctx, pause); ended != nil {
			return errors.Join(ended, err)
		}
		if err := r.body.rewind(); err != nil {
			return fmt.Errorf("%s: %w", r.op(), err)
		}
	}
}

// repeatable tells whether a request may be sent again after err.
func (r request) repeatable(err error) bool {
	if r.body != nil && r.body.seeker == nil {
		return false
	}
	var refused *APIError
	if errors.As(err, &refused) {
		if refused.Reason == ReasonQuotaExceeded {
			return false // time alone changes nothing
		}
		// 429 says that nothing was done.
		return refused.Status == http.StatusTooManyRequests || r.safe && refused.Status == http.StatusServiceUnavailable
	}
	var lost *ConnectionError
	return errors.As(err, &lost) && (r.safe || !lost.Sent)
}

// sleep waits. It returns ctx's cause if that ends first.
func sleep(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// resume waits before something is taken up that err broke: not at all the first
// time since it made progress. It returns an error if it must not be.
func (p *patience) resume(ctx context.Context, err error) error {
	var lost *ConnectionError
	if !errors.As(err, &lost) {
		return err
	}
	if p.since.IsZero() {
		p.since = time.Now()
		return nil
	}
	pause, again := p.next(err)
	if !again {
		return err
	}
	if ended := sleep(ctx, pause); ended != nil {
		return errors.Join(ended, err)
	}
	return nil
}
