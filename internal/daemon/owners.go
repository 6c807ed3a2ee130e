package daemon

import (
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
	known := []auth.Key{{Owner: auth.Admin, Hash: auth.HashKey(own)}}
	for i, k := range d.cfg.APIKeys {
		key, err := d.key(k.Key, k.KeyFile, k.Owner)
		if err == nil {
			err = config.CheckOwnerKey(key)
		}
		if err != nil {
			return nil, fmt.Errorf("api_keys[%d], of %s: %w", i, k.Owner, err)
		}
		known = append(known, auth.Key{Owner: k.Owner, Hash: auth.HashKey(key)})
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

// sessionsOf are the numbers of sessions of those who have one of their own.
func sessionsOf(cfg config.Config) map[string]int {
	of := map[string]int{}
	for _, k := range cfg.APIKeys {
		if k.MaxSessions > 0 {
			of[k.Owner] = k.MaxSessions
		}
	}
	return of
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

// rates are those of owners who have their own.
func rates(cfg config.Config) map[string]api.Rate {
	of := map[string]api.Rate{}
	for _, k := range cfg.APIKeys {
		if k.RequestsPerSecond > 0 || k.Burst > 0 {
			of[k.Owner] = api.Rate{PerSecond: k.RequestsPerSecond, Burst: k.Burst}
		}
	}
	return of
}

// concurrent is how many requests may be under way at once.
func concurrent(r config.Requests) api.Concurrencies {
	return api.Concurrencies{
		api.Short:    {Total: r.Concurrent, PerOwner: r.ConcurrentPerKey},
		api.Long:     {Total: r.Waiting, PerOwner: r.WaitingPerKey},
		api.Transfer: {Total: r.Transfers, PerOwner: r.TransfersPerKey},
	}
}

// concurrentOf are the numbers of requests of owners who have their own.
func concurrentOf(cfg config.Config) map[string]int {
	of := map[string]int{}
	for _, k := range cfg.APIKeys {
		if k.MaxConcurrent > 0 {
			of[k.Owner] = k.MaxConcurrent
		}
	}
	return of
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
