package daemon

import (
	"cmp"

	"github.com/sandkasten/sandkasten/internal/admission"
	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/drivers"
	"github.com/sandkasten/sandkasten/internal/pool"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session"
)

// newPool returns the pool that cfg asks for, or nil if it asks for none or
// the driver cannot have one. Its sandboxes are for sessions that ask for
// nothing, made as sessions say.
func newPool(cfg config.Config, build string, sessions session.Options, set *drivers.Set, host admission.Host, changed func()) *pool.Pool {
	if !cfg.Pool.Enabled {
		return nil
	}
	claimer, ok := set.Driver.(pool.Driver)
	if !ok {
		sessions.Log.Warn("this driver cannot keep sandboxes ready: pool.enabled has no effect", "driver", cfg.Driver)
		return nil
	}
	sizes := map[string]int{cfg.DefaultImage: pool.Auto}
	if len(cfg.Pool.Images) > 0 {
		sizes = map[string]int{}
		for image, n := range cfg.Pool.Images {
			if n == config.Auto {
				n = pool.Auto
			}
			sizes[image] = n
		}
	}
	// What sessions leave free, and more: a ready sandbox is nobody's loss.
	kept := admissionReserve(cfg, host)
	kept.MemoryBytes = max(cfg.Pool.MemoryReserveMB<<20, kept.MemoryBytes)
	gate := admission.New(host.Read, kept)
	d := sessions.Defaults
	spec := runtime.Spec{Limits: d.Limits, ReadonlyRoot: d.ReadonlyRoot, Network: runtime.Network{Mode: runtime.NetworkNone}, Seccomp: cmp.Or(sessions.Seccomp, runtime.SeccompStrict)}
	if !sessions.DiskLimited(cfg.Driver, spec.ReadonlyRoot) {
		spec.Limits.DiskMB = 0 // as its sessions have
	}
	return pool.New(pool.Options{
		Driver:     claimer,
		DriverName: cfg.Driver,
		Resolve:    sessions.ImagesOf(cfg.Driver).Resolve,
		Images:     sizes,
		Spec:       spec,
		Room:       roomOf(set, cfg.Driver, gate),
		MaxReady:   cfg.Pool.MaxReady,
		CPU:        cfg.Pool.CPU,
		Build:      build,
		Log:        sessions.Log,
		Changed:    changed,
	})
}

// admissionReserve is what sessions leave free.
func admissionReserve(cfg config.Config, host admission.Host) admission.Reserve {
	r := admission.Reserve{
		MemoryBytes: cfg.Admission.MemoryReserveMB << 20,
		DiskBytes:   cfg.Admission.DiskReserveMB << 20,
		Pids:        cfg.Admission.PidsReserve,
	}
	if host.PoolDir != "" {
		r.PoolBytes = cfg.DiskReserveMB() << 20
	}
	return r
}
