package runnerclient

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// superviseEvery is the time after which somebody who waits for a runner makes
	// sure that it is still there. Nothing of a runner that was stopped from
	// the host says so: its connections stay open.
	superviseEvery = 30 * time.Second
	// pingPatience is for the answer to a ping.
	pingPatience = 10 * time.Second
)

// errSilent is why an operation on a runner that does not answer was given up.
var errSilent = fmt.Errorf("%w: no answer to a ping within %s", ErrLost, pingPatience)

// supervisor makes sure from time to time that a runner answers.
type supervisor struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	client *Client

	looking sync.Mutex // held during a look, so that stop can wait for its end
	timer   *time.Timer
}

// Supervise returns a context for an operation that may take long. It ends with
// an ErrLost when the runner stops answering pings. The first is sent after a time
// that is at most half a minute. The caller calls stop.
func (c *Client) Supervise(ctx context.Context, first time.Duration) (supervised context.Context, stop func()) {
	s := &supervisor{client: c}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	s.looking.Lock()
	defer s.looking.Unlock()
	s.timer = time.AfterFunc(min(first, superviseEvery), s.look)
	return s.ctx, s.stop
}

func (s *supervisor) look() {
	s.looking.Lock()
	defer s.looking.Unlock()
	if s.ctx.Err() != nil {
		return
	}
	if s.silent() {
		s.cancel(errSilent)
		return
	}
	s.timer.Reset(superviseEvery)
}

// stop ends a look that goes on, since its context has ended.
func (s *supervisor) stop() {
	s.cancel(nil)
	s.looking.Lock()
	defer s.looking.Unlock()
	s.timer.Stop()
}

// silent reports whether the runner leaves a ping unanswered. A connection that
// is refused or breaks is no silence: who waits for an answer learns of it too.
func (s *supervisor) silent() bool {
	ctx, cancel := context.WithTimeout(s.ctx, pingPatience)
	defer cancel()
	err := s.client.Ping(ctx)
	return errors.Is(err, context.DeadlineExceeded) && s.ctx.Err() == nil
}
