package usage

import (
	"maps"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session/quota"
)

// quotaOf is the quota of an owner.
func (m *Meter) quotaOf(owner string) auth.Quota {
	return m.opts.Quotas.QuotaOf(auth.Principal{Owner: owner, Quota: owner})
}

// Check refuses another session of an owner, or a start of one, once the sessions have
// lived as long in this month as its quota lets them. Those that live go on.
func (m *Meter) Check(owner string) error {
	most := m.quotaOf(owner).SessionTime
	if most == 0 {
		return nil
	}
	used := m.Used(owner).SessionTime
	if used < most {
		return nil
	}
	return overMonth(quota.SessionTime, used.Truncate(time.Second).Seconds(), most.Seconds(), "")
}

// CheckNetwork refuses networks to an owner whose sessions have sent and received as
// much in this month as its quota lets them, as it was seen seconds ago.
func (m *Meter) CheckNetwork(owner string) error {
	over := m.networks.Load()
	if over == nil || !(*over)[owner] {
		return nil
	}
	const mib = 1 << 20
	return overMonth(quota.Network, float64(m.Used(owner).NetworkBytes()/mib), float64(m.quotaOf(owner).NetworkBytes/mib), "; a session of network mode none needs none of it")
}

func overMonth(name string, used, limit float64, advice string) error {
	frees := MonthOf(time.Now()).End()
	return errdefs.OverQuota(errdefs.ResourceExhausted, errdefs.Quota{Name: name, Used: used, Limit: limit, FreesAt: frees},
		"the next month begins at "+frees.Format(time.RFC3339)+advice)
}

// judgeNetworks looks for whom CheckNetwork refuses. The caller holds mu.
func (m *Meter) judgeNetworks(now time.Time) {
	owners := maps.Clone(m.stored)
	for k := range m.pending {
		owners[k.Owner] = Amounts{}
	}
	for k := range m.writing {
		owners[k.Owner] = Amounts{}
	}
	over := map[string]bool{}
	for owner := range owners {
		k := Key{owner, MonthOf(now)}
		used := m.stored[owner].plus(m.writing[k]).plus(m.pending[k]).NetworkBytes()
		if used == 0 {
			continue
		}
		if most := m.quotaOf(owner).NetworkBytes; most > 0 && used >= most {
			over[owner] = true
		}
	}
	m.networks.Store(&over)
}
