package usage

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/quota"
)

// Days returns what was used on the days from one to another, by day and owner: of all
// owners if owner is nil. Sessions that live count until now.
func (m *Meter) Days(ctx context.Context, from, to Day, owner *string) ([]DayUsage, error) {
	m.writes.Lock() // what is on its way to the store is in it, or still here
	defer m.writes.Unlock()
	stored, err := m.opts.Store.UsageDays(ctx, from, to, owner)
	if err != nil {
		return nil, err
	}
	sums := make(map[DayKey]Amounts, len(stored))
	add := func(k DayKey, a Amounts) {
		if k.Day >= from && k.Day <= to && (owner == nil || k.Owner == *owner) {
			sums[k] = sums[k].plus(a)
		}
	}
	for _, one := range stored {
		add(one.DayKey, one.Amounts)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, a := range m.days {
		add(k, a)
	}
	now := time.Now()
	for _, s := range m.spans {
		for day, part := range split(s.Began, now) {
			add(DayKey{s.Owner, day}, Amounts{SessionTime: part})
		}
	}
	all := make([]DayUsage, 0, len(sums))
	for k, a := range sums {
		all = append(all, DayUsage{k, a})
	}
	slices.SortFunc(all, func(x, y DayUsage) int { return cmp.Or(cmp.Compare(x.Day, y.Day), cmp.Compare(x.Owner, y.Owner)) })
	return all, nil
}

// Reports reports on all owners who used something in a month or have something now, by name.
func (m *Meter) Reports(ctx context.Context, month Month) ([]Report, error) {
	used, err := m.opts.Store.UsageOf(ctx, month, nil)
	if err != nil {
		return nil, err
	}
	living, err := m.opts.Sessions.List(ctx, session.ListFilter{})
	if err != nil {
		return nil, err
	}
	held := make(map[string]quota.Sum)
	for _, s := range living {
		sum := held[s.Owner]
		sum.Add(quota.Held{Limits: s.Limits, Stopped: s.State == session.Stopped})
		held[s.Owner] = sum
	}
	snapshots, err := m.opts.Store.SnapshotBytes(ctx, nil)
	if err != nil {
		return nil, err
	}
	owners := maps.Clone(held)
	for owner := range used {
		owners[owner] = held[owner]
	}
	for owner := range snapshots {
		owners[owner] = held[owner]
	}
	all := make([]Report, 0, len(owners))
	for _, owner := range slices.Sorted(maps.Keys(owners)) {
		r := Report{Owner: owner, Month: month, Now: owners[owner], SnapshotBytes: snapshots[owner], Quota: m.quotaOf(owner)}
		if r.Amounts, err = m.UsedIn(ctx, owner, month); err != nil {
			return nil, err
		}
		count, sizeMB, err := m.opts.Store.WorkspacesHeld(ctx, owner)
		if err != nil {
			return nil, err
		}
		r.Now.AddWorkspaces(count, sizeMB)
		all = append(all, r)
	}
	return all, nil
}
