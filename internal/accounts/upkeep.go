package accounts

import (
	"context"
	"errors"
	"time"
)

const writeEvery = time.Minute // between two writings of what keys were last used

// Run writes when keys were used, and finishes deletions that were interrupted once
// ready is closed. It returns when ctx is done and no deletion is under way any more: one
// that is left then is a later daemon's to finish.
func (a *Accounts) Run(ctx context.Context, ready <-chan struct{}) error {
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			a.stopDeletions()
			a.writeUses(context.WithoutCancel(ctx))
			return nil
		case <-ready:
			ready = nil // once is enough
			a.finishDeletions(ctx)
		case <-tick.C:
			a.writeUses(ctx)
			if ready == nil {
				a.finishDeletions(ctx)
			}
		}
	}
}

// writeUses stores the last uses of keys that have been used since.
func (a *Accounts) writeUses(ctx context.Context) {
	a.changes.Lock()
	defer a.changes.Unlock()
	used := make(map[string]time.Time)
	a.mu.RLock()
	for id, k := range a.keys {
		if at := time.UnixMicro(k.lastUsed.Load()).UTC(); at.After(k.LastUsed) && at.UnixMicro() > 0 {
			used[id] = at
		}
	}
	a.mu.RUnlock()
	if len(used) == 0 {
		return
	}
	if err := a.opts.Store.TouchKeys(ctx, used); err != nil {
		if !errors.Is(err, context.Canceled) {
			a.opts.Log.ErrorContext(ctx, "cannot write when keys were used", "err", err)
		}
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, at := range used {
		a.keys[id].LastUsed = at
	}
}
