package usage

import (
	"context"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/quota"
)

// Report is what an owner used in a month, and has and may have now.
type Report struct {
	Owner string
	Month Month
	Amounts

	Now           quota.Sum
	SnapshotBytes int64
	Quota         auth.Quota
}

// Report reports on an owner.
func (m *Meter) Report(ctx context.Context, owner string, month Month) (Report, error) {
	r := Report{Owner: owner, Month: month, Quota: m.quotaOf(owner)}
	var err error
	if r.Amounts, err = m.UsedIn(ctx, owner, month); err != nil {
		return Report{}, err
	}
	snapshots, err := m.opts.Store.SnapshotBytes(ctx, &owner)
	if err != nil {
		return Report{}, err
	}
	r.SnapshotBytes = snapshots[owner]
	if month == MonthOf(time.Now()) {
		r.SnapshotPeak = max(r.SnapshotPeak, r.SnapshotBytes)
	}
	count, sizeMB, err := m.opts.Store.WorkspacesHeld(ctx, owner)
	if err != nil {
		return Report{}, err
	}
	r.Now.AddWorkspaces(count, sizeMB)
	all, err := m.opts.Sessions.List(ctx, session.ListFilter{Owner: &owner})
	if err != nil {
		return Report{}, err
	}
	for _, s := range all {
		r.Now.Add(quota.Held{Limits: s.Limits, Stopped: s.State == session.Stopped})
	}
	return r, nil
}
