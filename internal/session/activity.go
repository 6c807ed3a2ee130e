package session

import (
	"context"
	"time"
)

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
	var news []Activity
	var from []*entry
	for _, e := range c.entries() {
		if a, any := e.news(); any {
			news = append(news, a)
			from = append(from, e)
		}
	}
	if len(news) == 0 {
		return
	}
	if err := c.store.Touch(ctx, news); err != nil {
		c.log.ErrorContext(ctx, "cannot write activity; trying again later", "sessions", len(news), "err", err)
		for _, e := range from {
			e.notTold()
		}
	}
}
