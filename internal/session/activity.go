package session

import (
	"context"
	"time"
)

// activity is what uses a session.
type activity struct {
	using   int  // operations in progress
	unsaved bool // there is activity that the store does not know
}

// flushUntil writes activity to the store every FlushEvery until ctx is done,
// and once more then.
func (c *core) flushUntil(ctx context.Context) {
	tick := time.NewTicker(c.opts.FlushEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.flush(ctx)
		case <-ctx.Done():
			c.flush(context.WithoutCancel(ctx))
			return
		}
	}
}

// flush writes the activity that the store does not know, in one transaction.
// What is lost in a crash is at most FlushEvery of idle time and a cwd.
func (c *core) flush(ctx context.Context) {
	var unsaved []Activity
	var from []*entry
	for _, e := range c.entries() {
		if a, any := e.takeUnsaved(); any {
			unsaved = append(unsaved, a)
			from = append(from, e)
		}
	}
	if len(unsaved) == 0 {
		return
	}
	if err := c.store.Touch(ctx, unsaved); err != nil {
		c.log.ErrorContext(ctx, "cannot write activity; trying again later", "sessions", len(unsaved), "err", err)
		for _, e := range from {
			e.markUnsaved()
		}
	}
}
