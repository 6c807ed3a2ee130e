package usage

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	writeEvery   = 5 * time.Second        // what a crash loses of traffic at most
	writeSoon    = 500 * time.Millisecond // after a session began or ended to live, with others that do
	measureEvery = time.Minute            // processor time and snapshots; the former also at a session's end
	lastWithin   = 250 * time.Millisecond // for the processor time of a session that ends
	atOnce       = 8                      // sandboxes that are measured
)

// Run measures and writes until ctx is done.
func (m *Meter) Run(ctx context.Context) error {
	measured := make(chan struct{})
	go func() {
		defer close(measured)
		m.measureUntil(ctx)
	}()
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	var soon <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			<-measured
			m.write(context.WithoutCancel(ctx))
			return nil
		case <-m.kick:
			if soon == nil {
				soon = time.After(writeSoon)
			}
		case <-soon:
			soon = nil
			m.write(ctx)
		case <-tick.C:
			m.write(ctx)
		}
	}
}

func (m *Meter) measureUntil(ctx context.Context) {
	tick := time.NewTicker(measureEvery)
	defer tick.Stop()
	for {
		m.measureSnapshots(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			m.measure(ctx)
		}
	}
}

// write counts traffic and writes what has been counted, in one step. After a failure
// the next one writes it as well.
func (m *Meter) write(ctx context.Context) {
	m.writes.Lock()
	defer m.writes.Unlock()
	m.mu.Lock()
	now := time.Now()
	m.countTraffic(now)
	changes := Changes{Seen: now, Amounts: m.pending, Days: m.days, Closed: m.closed}
	for _, s := range m.spans {
		if s.changed {
			s.changed = false
			changes.Spans = append(changes.Spans, s.Span)
		}
	}
	for id, made := range m.making {
		if !made.written {
			made.written = true
			changes.Spans = append(changes.Spans, Span{Session: id, Owner: made.owner})
		}
	}
	m.writing, m.pending, m.days, m.closed = m.pending, make(map[Key]Amounts), make(map[DayKey]Amounts), nil
	m.turn(now)
	m.judgeNetworks(now)
	m.mu.Unlock()

	err := m.opts.Store.AddUsage(context.WithoutCancel(ctx), changes)

	m.mu.Lock()
	defer m.mu.Unlock()
	m.writing = nil
	if err != nil {
		m.opts.Log.ErrorContext(ctx, "cannot write what owners use yet", "err", err)
		m.restore(changes)
		return
	}
	m.turn(now)
	for k, a := range changes.Amounts {
		if k.Month == m.month {
			m.stored[k.Owner] = m.stored[k.Owner].plus(a)
		}
	}
}

// writeEnd has the end of a session's span written, if it is not yet. A row that starts no
// longer says when it stopped: the next meter would count the time between as well.
func (m *Meter) writeEnd(ctx context.Context, id string) {
	m.mu.Lock()
	wait := m.writing != nil || slices.Contains(m.closed, id)
	m.mu.Unlock()
	if wait {
		m.write(ctx)
	}
}

// restore has changes written next time. The caller holds mu.
func (m *Meter) restore(c Changes) {
	for k, a := range c.Amounts {
		m.pending[k] = m.pending[k].plus(a)
	}
	for k, a := range c.Days {
		m.days[k] = m.days[k].plus(a)
	}
	for _, s := range c.Spans {
		if here := m.spans[s.Session]; here != nil {
			here.changed = true
		}
		if made := m.making[s.Session]; made != nil {
			made.written = false
		}
	}
	m.closed = append(m.closed, c.Closed...)
}

// countTraffic counts what was carried since the last time. The caller holds mu.
func (m *Meter) countTraffic(now time.Time) {
	if m.opts.Traffic == nil {
		return
	}
	for owner, t := range m.opts.Traffic() {
		// What a closing network carried may be missing for a moment.
		before := m.traffic[owner]
		sent, received := max(t.Sent-before.Sent, 0), max(t.Received-before.Received, 0)
		if sent+received > 0 {
			m.add(owner, DayOf(now), Amounts{Sent: sent, Received: received})
			m.traffic[owner] = Traffic{before.Sent + sent, before.Received + received}
		}
	}
}

// measure counts the processor time and memory of all sessions that live.
func (m *Meter) measure(ctx context.Context) {
	if m.opts.Measure == nil {
		return
	}
	m.mu.Lock()
	living := slices.Collect(maps.Values(m.spans))
	m.mu.Unlock()
	var all errgroup.Group
	all.SetLimit(atOnce)
	for _, s := range living {
		all.Go(func() error {
			m.measureOne(ctx, s)
			return nil
		})
	}
	_ = all.Wait() // nothing that is done here can fail
}

// measureLast is measure of one session before it ends. It may take a moment only.
func (m *Meter) measureLast(ctx context.Context, id string) {
	m.mu.Lock()
	s := m.spans[id]
	m.mu.Unlock()
	if s == nil || m.opts.Measure == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWithin)
	defer cancel()
	m.measureOne(ctx, s)
}

func (m *Meter) measureOne(ctx context.Context, s *span) {
	spent, memory, err := m.opts.Measure(ctx, s.sandbox)
	if err != nil {
		return // it has ended, or is measured next time
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.spans[s.Session] != s {
		return
	}
	now := time.Now()
	held := now.Sub(s.measured).Seconds() * float64(memory) / (1 << 20)
	s.measured = now
	m.add(s.Owner, DayOf(now), Amounts{MemoryTime: int64(held)})
	if spent <= s.CPUTime {
		return
	}
	m.add(s.Owner, DayOf(now), Amounts{CPUTime: spent - s.CPUTime})
	s.CPUTime, s.changed = spent, true
}

// measureSnapshots notes how much the snapshots of all owners have.
func (m *Meter) measureSnapshots(ctx context.Context) {
	all, err := m.opts.Store.SnapshotBytes(ctx, nil)
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			m.opts.Log.ErrorContext(ctx, "cannot measure the snapshots", "err", err)
		}
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.turn(now)
	for owner, bytes := range all {
		k := Key{owner, m.month}
		if bytes > max(m.stored[owner].SnapshotPeak, m.writing[k].SnapshotPeak, m.pending[k].SnapshotPeak) {
			m.add(owner, DayOf(now), Amounts{SnapshotPeak: bytes})
		}
	}
}
