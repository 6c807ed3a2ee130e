// Package admission decides whether the host has room for another sandbox, so
// that sessions which want to grow do not take down those that run. It looks
// at what the host has left at the moment, not at what sandboxes may come to
// use: their limits may add up to more than the host has, and the kernel ends
// sandboxes before the host's services when all want it at once. It also tells
// whether the host's disk can be written at all.
package admission

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// Reading is what a host has left.
type Reading struct {
	MemoryBytes int64 // that programs can have without swapping
	DiskBytes   int64 // in the data directory, for root
	PoolBytes   int64 // in the pool of disks
	Pids        int64 // processes and threads
}

// Reserve is what must stay free. A zero field is no limit.
type Reserve Reading

const (
	// fresh is how long a reading counts. Taking one is a good part of what it
	// takes to hand out a ready sandbox; a sandbox that was made in the meantime
	// is small beside any reserve.
	fresh = 250 * time.Millisecond
	// stale is how old the last reading may be that counts while the next one is
	// taken. Nobody waits for that, unless the last is older.
	stale = 2 * time.Second
)

// Gate refuses what the host has no room for. It is also a collector of
// metrics.
type Gate struct {
	read    func() (Reading, error)
	reserve Reserve
	refused map[string]*atomic.Int64 // by resource

	mu     sync.Mutex
	last   Reading   // guarded by mu
	at     time.Time // guarded by mu; when last was taken
	taking bool      // guarded by mu; another is being taken
	since  time.Time // guarded by mu; readings that began before do not count
}

// New returns a Gate that keeps reserve of what read finds: Host's Read, or a
// test's.
func New(read func() (Reading, error), reserve Reserve) *Gate {
	g := &Gate{read: read, reserve: reserve, refused: map[string]*atomic.Int64{}}
	for _, n := range g.needs(Reading{}) {
		g.refused[n.resource] = new(atomic.Int64)
	}
	return g
}

// need is one resource: what is left, and what must be.
type need struct {
	resource   string
	left, kept int64
	unit       int64 // of the setting
	text       string
	setting    string
	advice     string
	code       errdefs.Code
	cause      error
}

func (g *Gate) needs(r Reading) []need {
	const mib = 1 << 20
	needs := []need{
		{"memory", r.MemoryBytes, g.reserve.MemoryBytes, mib, "%d MiB of memory", "admission.memory_reserve_mb", "stop or destroy sessions, add memory", errdefs.Unavailable, nil},
		{"disk", r.DiskBytes, g.reserve.DiskBytes, mib, "%d MiB of disk", "admission.disk_reserve_mb", "destroy sessions, remove images, enlarge the disk of data_dir", errdefs.Unavailable, errdefs.ErrDiskShort},
		{"pids", r.Pids, g.reserve.Pids, 1, "%d processes", "admission.pids_reserve", "stop or destroy sessions, raise kernel.pid_max and kernel.threads-max", errdefs.Unavailable, nil},
	}
	if g.reserve.PoolBytes > 0 { // or there may be none; what is in it are disks of sessions, and waiting frees nothing
		needs = append(needs, need{"pool", r.PoolBytes, g.reserve.PoolBytes, mib, "%d MiB of disk.pool_mb", "admission.disk_reserve_mb", "destroy sessions", errdefs.InsufficientSpace, errdefs.ErrDiskShort})
	}
	return needs
}

// Admit returns nil if another sandbox may be made or started, and otherwise
// Unavailable, or InsufficientSpace for the pool of disks, with the resource that
// is short and what can be done about it.
func (g *Gate) Admit(context.Context) error {
	left, err := g.left()
	if err != nil {
		return errdefs.Wrap(err, errdefs.Unavailable, "the daemon cannot find out what its host has left; its log says why")
	}
	for _, n := range g.needs(left) {
		if n.kept > 0 && n.left < n.kept {
			g.refused[n.resource].Add(1)
			return errdefs.Wrap(n.cause, n.code, "the host has no room for another session: "+n.text+" are left and %s keeps %d free; %s, or lower that setting",
				n.left/n.unit, n.setting, n.kept/n.unit, n.advice)
		}
	}
	return nil
}

// Forget has the next call of Admit look at the host again: somebody has made room.
func (g *Gate) Forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at, g.since = time.Time{}, time.Now()
}

// leastLeft is what the file systems' own blocks take, whatever the reserve is.
const leastLeft = 64 << 20

// RoomToEnd is how many bytes the archive of a session that ends may have: it lies on the
// disk twice until it is kept, and what the session had is free afterwards.
func (g *Gate) RoomToEnd() (int64, error) {
	left, err := g.left()
	return (left.DiskBytes - leastLeft) / 2, err
}

// left is what the host has left, or had a moment ago.
func (g *Gate) left() (Reading, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch age := time.Since(g.at); {
	case age >= stale:
		r, err := g.read()
		g.took(r, err)
		return r, err
	case age >= fresh && !g.taking:
		g.taking = true
		go g.refresh()
	}
	return g.last, nil
}

// refresh takes a reading while the last one still counts.
func (g *Gate) refresh() {
	began := time.Now()
	r, err := g.read()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.taking = false
	if began.After(g.since) {
		g.took(r, err)
	}
}

// took notes a reading. After one that failed none counts. The caller holds mu.
func (g *Gate) took(r Reading, err error) {
	if g.last, g.at = r, time.Now(); err != nil {
		g.at = time.Time{}
	}
}

var (
	refusedDesc = prometheus.NewDesc("sandkasten_admissions_refused_total", "Sessions that were not created or started, by the resource that the host was short of.", []string{"resource"}, nil)
	leftDesc    = prometheus.NewDesc("sandkasten_host_left", "What the host has left: bytes of memory and disk, number of pids.", []string{"resource"}, nil)
)

// Describe is for the registry.
func (g *Gate) Describe(out chan<- *prometheus.Desc) {
	out <- refusedDesc
	out <- leftDesc
}

// Collect is for the registry.
func (g *Gate) Collect(out chan<- prometheus.Metric) {
	for resource, n := range g.refused {
		out <- prometheus.MustNewConstMetric(refusedDesc, prometheus.CounterValue, float64(n.Load()), resource)
	}
	left, err := g.read()
	if err != nil {
		out <- prometheus.NewInvalidMetric(leftDesc, fmt.Errorf("read what the host has left: %w", err))
		return
	}
	for _, n := range g.needs(left) {
		out <- prometheus.MustNewConstMetric(leftDesc, prometheus.GaugeValue, float64(n.left), n.resource)
	}
}
