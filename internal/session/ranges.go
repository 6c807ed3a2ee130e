package session

import (
	"cmp"
	"time"

	"github.com/sandkasten/sandkasten/internal/runtime"
)

// Defaults are for what a request leaves out.
type Defaults struct {
	Image        string                   // none: a request without an image is refused
	TTL          time.Duration            // 30 minutes
	OnExpiry     OnExpiry                 // stop for a session with a name, else destroy
	IdleTimeout  time.Duration            // of a session to be paused or stopped: 5 minutes, or half its TTL if that is less
	Retention    time.Duration            // of a stopped session: 7 days
	RetentionOf  map[string]time.Duration // Retention for owners who have another one
	ExecTimeout  time.Duration            // Maxima.ExecTimeout
	OutputBytes  int64                    // of an exec that can be replayed: 1 MiB
	Limits       runtime.Limits           // 1 core, 512 MB, 256 pids, 2048 MB of disk
	ReadonlyRoot bool
	Hostname     string // "sandbox"
}

// Maxima are what a request may ask for at most.
type Maxima struct {
	TTL         time.Duration  // 24 hours
	Lifetime    time.Duration  // of a session from its creation; 0 is no end
	ExecTimeout time.Duration  // 10 minutes
	Limits      runtime.Limits // a zero field is Defaults' or 64 cores, 1 TB, 65536 pids, 4 TB, whichever is more
	Sessions    int            // alive at once; 0 is no maximum
	FileBytes   int64          // one file written: 1 GiB
}

// complete returns both with the values of their comments where they have none.
func complete(d Defaults, x Maxima) (Defaults, Maxima) {
	x = x.withDefaults(d)
	return d.withDefaults(x), x
}

func (x Maxima) withDefaults(d Defaults) Maxima {
	x.TTL = cmp.Or(x.TTL, max(24*time.Hour, d.TTL))
	x.ExecTimeout = cmp.Or(x.ExecTimeout, max(10*time.Minute, d.ExecTimeout))
	x.FileBytes = cmp.Or(x.FileBytes, 1<<30)
	x.Limits.CPU = cmp.Or(x.Limits.CPU, max(64, d.Limits.CPU))
	x.Limits.MemoryMB = cmp.Or(x.Limits.MemoryMB, max(1<<20, d.Limits.MemoryMB))
	x.Limits.Pids = cmp.Or(x.Limits.Pids, max(65536, d.Limits.Pids))
	x.Limits.DiskMB = cmp.Or(x.Limits.DiskMB, max(4<<20, d.Limits.DiskMB))
	return x
}

func (d Defaults) withDefaults(x Maxima) Defaults {
	d.TTL = cmp.Or(d.TTL, min(30*time.Minute, x.TTL))
	d.IdleTimeout = cmp.Or(d.IdleTimeout, 5*time.Minute)
	d.Retention = cmp.Or(d.Retention, 7*24*time.Hour)
	d.ExecTimeout = cmp.Or(d.ExecTimeout, x.ExecTimeout)
	d.OutputBytes = cmp.Or(d.OutputBytes, 1<<20)
	d.Hostname = cmp.Or(d.Hostname, "sandbox")
	d.Limits.CPU = cmp.Or(d.Limits.CPU, min(1, x.Limits.CPU))
	d.Limits.MemoryMB = cmp.Or(d.Limits.MemoryMB, min(512, x.Limits.MemoryMB))
	d.Limits.Pids = cmp.Or(d.Limits.Pids, min(256, x.Limits.Pids))
	d.Limits.DiskMB = cmp.Or(d.Limits.DiskMB, min(2048, x.Limits.DiskMB))
	return d
}
