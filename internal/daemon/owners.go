package daemon

import (
	"cmp"
	"fmt"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/session"
)

// keys knows the daemon's own key, which is configured or in the key file, and
// those of api_keys.
func (d *Daemon) keys() (*auth.Keys, error) {
	own, err := d.key(d.cfg.APIKey, d.cfg.KeyFile(), auth.Admin)
	if err != nil {
		return nil, err
	}
	known := []auth.Key{{ID: "api_key", Owner: auth.Admin, Hash: auth.HashKey(own)}}
	for i, k := range d.cfg.APIKeys {
		key, err := d.key(k.Key, k.KeyFile, k.Owner)
		if err == nil {
			err = config.CheckOwnerKey(key)
		}
		if err != nil {
			return nil, fmt.Errorf("api_keys[%d], of %s: %w", i, k.Owner, err)
		}
		known = append(known, auth.Key{ID: fmt.Sprintf("api_keys[%d]", i), Owner: k.Owner, Hash: auth.HashKey(key)})
	}
	return auth.NewKeys(known...)
}

// key is a configured key, or the one in its file, which is made if it is not
// there.
func (d *Daemon) key(key, file, owner string) (string, error) {
	if key != "" {
		return key, nil
	}
	key, created, err := auth.KeyFile(file)
	if created {
		d.log.Info("made an API key", "file", file, "owner", owner)
	}
	return key, err
}

// retentionOf is how long stopped sessions are kept of owners who have their own
// time.
func retentionOf(cfg config.Config) map[string]time.Duration {
	of := map[string]time.Duration{}
	for _, k := range cfg.APIKeys {
		if k.StoppedFor > 0 {
			of[k.Owner] = k.StoppedFor
		}
	}
	return of
}

// quotas are what each owner may have.
func quotas(cfg config.Config) auth.Quotas {
	fixed := auth.FixedQuotas{
		General: auth.Quota{
			Sessions:          cfg.OwnerSessions,
			Running:           cfg.Quota.Running,
			CPU:               cfg.Quota.CPU,
			MemoryMB:          cfg.Quota.MemoryMB,
			DiskMB:            cfg.Quota.DiskMB,
			Workspaces:        cfg.Quota.Workspaces,
			NetworkBytes:      cfg.Quota.NetworkMB << 20,
			SessionTime:       time.Duration(cfg.Quota.SessionSeconds) * time.Second,
			SnapshotBytes:     cfg.Snapshots.MaxTotalMB << 20,
			RequestsPerSecond: cfg.RateLimit.RequestsPerSecond,
			Burst:             cfg.RateLimit.Burst,
			Requests:          cfg.Requests.ConcurrentPerKey,
			Waiting:           cfg.Requests.WaitingPerKey,
			Transfers:         cfg.Requests.TransfersPerKey,
		},
		Of: map[string]auth.Quota{},
	}
	for _, k := range cfg.APIKeys {
		q := fixed.Of[k.Owner] // another key of theirs may say other things
		q.Sessions = cmp.Or(k.MaxSessions, q.Sessions)
		q.Requests = cmp.Or(k.MaxConcurrent, q.Requests)
		if k.RequestsPerSecond > 0 || k.Burst > 0 {
			q.RequestsPerSecond, q.Burst = k.RequestsPerSecond, k.Burst
		}
		fixed.Of[k.Owner] = q
	}
	return fixed
}

// concurrent is how many requests of all owners may be under way at once.
func concurrent(r config.Requests) api.Concurrencies {
	return api.Concurrencies{api.Short: r.Concurrent, api.Long: r.Waiting, api.Transfer: r.Transfers}
}

// fileScopeOf are the scopes of owners who have one of their own.
func fileScopeOf(cfg config.Config) map[string]session.FileScope {
	of := map[string]session.FileScope{}
	for _, k := range cfg.APIKeys {
		if k.FileScope != "" {
			of[k.Owner] = session.FileScope(k.FileScope)
		}
	}
	return of
}
