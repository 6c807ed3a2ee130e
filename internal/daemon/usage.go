package daemon

import (
	"context"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/store"
	"github.com/sandkasten/sandkasten/internal/usage"
)

// openUsage opens the meter of what owners use. The manager need not be there yet.
func (d *Daemon) openUsage(rows *store.Store) {
	d.usage = usage.New(usage.Options{
		Store: rows, Sessions: rows, Log: d.log, Quotas: d.quotas,
		Traffic: d.traffic,
		Measure: d.measure,
	})
}

// traffic is what the networks of owners carried since the daemon's start.
func (d *Daemon) traffic() map[string]usage.Traffic {
	totals, err := d.manager.Networks.TotalsByOwner(auth.System("usage"))
	if err != nil {
		return nil // only those are refused who may not ask
	}
	all := make(map[string]usage.Traffic, len(totals))
	for owner, t := range totals {
		all[owner] = usage.Traffic{Sent: t.Sent, Received: t.Received}
	}
	return all
}

// measure returns the processor time of a sandbox since it began to live, and its memory now.
func (d *Daemon) measure(ctx context.Context, id runtime.ID) (cpu time.Duration, memory int64, err error) {
	sandbox, err := d.drivers.Driver.Open(ctx, id)
	if err != nil {
		return 0, 0, err
	}
	stats, err := sandbox.Stats(ctx)
	return time.Duration(stats.CPUUsageUsec) * time.Microsecond, stats.MemoryBytes, err
}

// clockSet has times told by the wall clock as it is now.
func (d *Daemon) clockSet() {
	d.manager.ClockSet()
	d.usage.ClockSet()
}
