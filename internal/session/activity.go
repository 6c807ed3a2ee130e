package session

import (
	"context"
	"time"
)

// flushUntil writes activity to the store every FlushEvery until ctx is done,
// and once more then.
func (m *Manager) flushUntil(ctx context.Context) {
	tick := time.NewTicker(m.opts.FlushEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			m.flush(ctx)
		case <-ctx.Done():
			m.flush(context.WithoutCancel(ctx))
			return
		}
	}
}

// flush writes the activity that the store does not know, in one transaction.
// What is lost in a crash is at most FlushEvery of idle time and a cwd.
func (m *Manager) flush(ctx context.Context) {
	var news []Activity
	var from []*entry
	for _, e := range m.entries() {
		if a, any := e.news(); any {
			news = append(news, a)
			from = append(from, e)
		}
	}
	if len(news) == 0 {
		return
	}
	if err := m.store.Touch(ctx, news); err != nil {
		m.log.ErrorContext(ctx, "cannot write activity; trying again later", "sessions", len(news), "err", err)
		for _, e := range from {
			e.notTold()
		}
	}
}

// Prune forgets the sessions that ended before a time and says how many.
func (m *Manager) Prune(ctx context.Context, endedBefore time.Time) (int64, error) {
	return m.store.Prune(ctx, endedBefore)
}
