package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sandkasten/sandkasten/internal/runnerclient"
)

const (
	// watchEvery is the time after which somebody who waits for a runner makes
	// sure that it is still there. Nothing of a runner that was stopped from
	// the host says so: its connections stay open.
	watchEvery = 30 * time.Second
	// watchMargin is what an answer may take beyond a command's time and grace.
	watchMargin = 5 * time.Second
	// watchPatience is for the answer to a ping.
	watchPatience = 10 * time.Second
)

// errSilent is why an operation on a runner that does not answer was given up.
var errSilent = fmt.Errorf("%w: no answer to a ping within %s", runnerclient.ErrLost, watchPatience)

// watcher makes sure from time to time that a runner answers.
type watcher struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	client *runnerclient.Client

	looking sync.Mutex // held during a look, so that stop can wait for its end
	timer   *time.Timer
}

// watchRunner returns a context for an operation that may take long. It ends with
// errSilent when the runner stops answering. The first look is when a command
// with a timeout must have ended, if that is sooner than usual; it may well be
// that it waits for its shell. The caller calls stop.
func (c *Execs) watchRunner(ctx context.Context, use use, timeoutMS int64) (watched context.Context, stop func()) {
	first := watchEvery
	if timeoutMS > 0 {
		first = min(first, time.Duration(timeoutMS)*time.Millisecond+c.opts.KillGrace+watchMargin)
	}
	w := &watcher{client: use.client}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.looking.Lock()
	defer w.looking.Unlock()
	w.timer = time.AfterFunc(first, w.look)
	return w.ctx, w.stop
}

func (w *watcher) look() {
	w.looking.Lock()
	defer w.looking.Unlock()
	if w.ctx.Err() != nil {
		return
	}
	if w.silent() {
		w.cancel(errSilent)
		return
	}
	w.timer.Reset(watchEvery)
}

// stop ends a look that goes on, since its context has ended.
func (w *watcher) stop() {
	w.cancel(nil)
	w.looking.Lock()
	defer w.looking.Unlock()
	w.timer.Stop()
}

// silent reports whether the runner leaves a ping unanswered. A connection that
// is refused or breaks is no silence: who waits for an answer learns of it too.
func (w *watcher) silent() bool {
	ctx, cancel := context.WithTimeout(w.ctx, watchPatience)
	defer cancel()
	err := w.client.Ping(ctx)
	return errors.Is(err, context.DeadlineExceeded) && w.ctx.Err() == nil
}
