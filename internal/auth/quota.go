package auth

import (
	"cmp"
	"time"
)

// Quota is how much an owner may have and ask for. Zero is no limit.
type Quota struct {
	Sessions      int     // that have not ended
	Running       int     // of these, that are not stopped
	CPU           float64 // cores of those that are not stopped, all together
	MemoryMB      int64   // of those that are not stopped, all together
	DiskMB        int64   // of all that have not ended, and of all workspaces, together
	Workspaces    int
	SnapshotBytes int64 // of all archives together

	// In a calendar month of UTC.
	NetworkBytes int64
	SessionTime  time.Duration

	RequestsPerSecond float64 // on average
	Burst             int     // requests at once before the rate counts; 0 is RequestsPerSecond

	Requests  int // under way at once that wait for the daemon alone
	Waiting   int // and that wait for a program or an event
	Transfers int // and that carry files
}

// or fills what is zero in q from general.
func (q Quota) or(general Quota) Quota {
	return Quota{
		Sessions:          cmp.Or(q.Sessions, general.Sessions),
		Running:           cmp.Or(q.Running, general.Running),
		CPU:               cmp.Or(q.CPU, general.CPU),
		MemoryMB:          cmp.Or(q.MemoryMB, general.MemoryMB),
		DiskMB:            cmp.Or(q.DiskMB, general.DiskMB),
		Workspaces:        cmp.Or(q.Workspaces, general.Workspaces),
		SnapshotBytes:     cmp.Or(q.SnapshotBytes, general.SnapshotBytes),
		NetworkBytes:      cmp.Or(q.NetworkBytes, general.NetworkBytes),
		SessionTime:       cmp.Or(q.SessionTime, general.SessionTime),
		RequestsPerSecond: cmp.Or(q.RequestsPerSecond, general.RequestsPerSecond),
		Burst:             cmp.Or(q.Burst, general.Burst),
		Requests:          cmp.Or(q.Requests, general.Requests),
		Waiting:           cmp.Or(q.Waiting, general.Waiting),
		Transfers:         cmp.Or(q.Transfers, general.Transfers),
	}
}

// Quotas knows what principals may have. It is asked at every use and must be
// fast: an answer may differ from the one before, and holds from then on.
type Quotas interface {
	QuotaOf(p Principal) Quota
}

// FixedQuotas are those of a configuration.
type FixedQuotas struct {
	General Quota            // of who has none of his own
	Of      map[string]Quota // by Principal.Quota; what is zero in one is General's
}

// QuotaOf implements Quotas.
func (f FixedQuotas) QuotaOf(p Principal) Quota { return f.Of[p.Quota].or(f.General) }
