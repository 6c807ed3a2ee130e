package daemon

import (
	"context"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/history"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/store"
)

// openHistory opens what records the use of sessions and of the host. The manager need not be there yet.
func (d *Daemon) openHistory(rows *store.Store) {
	d.history = history.New(history.Options{Store: rows, Log: d.log, List: d.listKept, Read: d.readUse, Host: d.readHost})
}

// recordHistory records when the sessions of an earlier daemon have been taken up.
func (d *Daemon) recordHistory(ctx context.Context) error {
	select {
	case <-d.settled:
		return d.history.Run(ctx)
	case <-ctx.Done():
		return nil
	}
}

// listKept lists the sessions that have not ended.
func (d *Daemon) listKept(ctx context.Context) ([]session.Session, error) {
	return d.manager.Sessions.List(ctx, auth.System("history"), session.ListRequest{})
}

// readUse is what the sessions use that run. Paused and stopped ones use nothing new.
func (d *Daemon) readUse(ctx context.Context, all []session.Session) map[session.ID]history.Sample {
	recorder := auth.System("history")
	var ids []session.ID
	for _, s := range all {
		if s.State == session.Running {
			ids = append(ids, s.ID)
		}
	}
	samples := make(map[session.ID]history.Sample, len(ids))
	for i, r := range d.manager.Sessions.LastStats(ctx, recorder, ids) {
		if r.At.IsZero() {
			continue // it has not answered yet
		}
		s := history.Sample{At: r.At, CPUUsageUsec: r.CPUUsageUsec, MemoryBytes: r.MemoryBytes, DiskBytes: r.DiskBytes, Pids: r.Pids}
		// A session that has ended since has no network.
		if t, err := d.manager.Networks.Totals(ctx, recorder, string(ids[i])); err == nil && t != nil {
			s.SentBytes, s.ReceivedBytes = t.Sent, t.Received
		}
		samples[ids[i]] = s
	}
	return samples
}

// readHost is how full the host is, and what the daemon has done since its start.
func (d *Daemon) readHost(_ context.Context, all []session.Session) (r history.HostReading, err error) {
	use, err := d.host.Use()
	if err != nil {
		return r, err
	}
	sessions := map[string]int{}
	for _, s := range all {
		sessions[string(s.State)]++
	}
	_, maxima, _ := d.manager.Sessions.Limits(auth.System("history"))
	ready := d.pool.Status()
	r.HostSample = history.HostSample{
		At: time.Now(), CPULimit: use.CPUs, MemoryBytes: use.MemoryBytes, MemoryLimit: use.MemoryTotal,
		DiskBytes: use.DiskBytes, DiskLimit: use.DiskTotal, DiskPoolBytes: use.PoolBytes, DiskPoolLimit: use.PoolTotal,
		Sessions: sessions, SessionsLimit: maxima.Sessions, PoolReady: ready.Ready,
	}
	for _, image := range ready.Images {
		r.PoolWanted += image.Wanted
	}
	r.BusyTicks, r.TotalTicks = use.BusyCPU, use.TotalCPU
	r.Answered, r.Failed = d.answered.All.Load(), d.answered.Failed.Load()
	return r, d.metrics.AddTo(&r)
}
