package daemon

import (
	"context"
	"log/slog"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/drivers"
	"github.com/sandkasten/sandkasten/internal/network"
	"github.com/sandkasten/sandkasten/internal/network/groups"
	"github.com/sandkasten/sandkasten/internal/session/networks"
	"github.com/sandkasten/sandkasten/internal/store"
)

// networkOptions is what sessions may reach.
func networkOptions(cfg config.Config, rows *store.Store, set *drivers.Set, log *slog.Logger) networks.Options {
	o := networks.Options{
		Store:        rows,
		Default:      networkPolicy(cfg.Defaults.Network),
		Images:       map[string]network.Policy{},
		Ceilings:     map[string]network.Policy{},
		Most:         network.Mode(cfg.MaxNetworkMode),
		AllowPrivate: cfg.Network.AllowPrivate,
		Groups:       cfg.Network.Groups,
		Engine:       set.EngineNetwork,
		Log:          log,
	}
	for name, policy := range cfg.Network.Images {
		o.Images[name] = networkPolicy(policy)
	}
	for _, k := range cfg.APIKeys {
		if k.Network != nil {
			o.Ceilings[k.Owner] = networkPolicy(*k.Network)
		}
	}
	return o
}

// groupsOf are the groups of an image for policies: one whose client the image lacks
// is empty, so that a policy can be for several images.
func (d *Daemon) groupsOf(ctx context.Context, digest string) (map[string][]string, error) {
	found, err := d.groups.Groups(ctx, digest)
	if err != nil {
		return nil, err
	}
	all := make(map[string][]string, len(groups.Names))
	for _, name := range groups.Names {
		all[name] = found[name]
	}
	return all, nil
}

func networkPolicy(p config.NetworkPolicy) network.Policy {
	return network.Policy{Mode: network.Mode(p.Mode), Allow: p.Allow, Deny: p.Deny, MaxMbit: p.MaxMbit}
}
