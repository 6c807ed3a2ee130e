package daemon

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"log/slog"
	"math"
	"syscall"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/drivers"
	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/network"
	"github.com/sandkasten/sandkasten/internal/network/groups"
	"github.com/sandkasten/sandkasten/internal/network/hostcas"
	"github.com/sandkasten/sandkasten/internal/network/relay"
	"github.com/sandkasten/sandkasten/internal/preview"
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

		MaxConnections: cfg.MaxNetworkConnections,
		Budget:         relayBudget(cfg.Network.MaxConnectionsPerOwner),

		Groups: cfg.Network.Groups,
		Engine: set.EngineNetwork,
		Log:    log,
	}
	authorities, err := hostcas.Of(cfg.Network.TrustHostCAs, cfg.Network.CAFiles)
	if err != nil {
		log.Error("sandboxes do not trust the authorities of network.trust_host_cas and network.ca_files", "err", err)
	}
	o.Authorities = authorities
	if len(cfg.Network.CAFiles) > 0 && err == nil {
		if pool, err := x509.SystemCertPool(); err == nil {
			pool.AppendCertsFromPEM(bytes.Join(authorities, nil))
			o.Roots = pool
		}
	}
	for name, policy := range cfg.Network.Images {
		o.Images[name] = networkPolicy(policy)
	}
	for alias, name := range images.Aliases() { // an image has one policy by all of its names
		if _, ok := cfg.Network.Images[alias]; ok {
			continue
		}
		if policy, ok := o.Images[name]; ok {
			o.Images[alias] = policy
		}
	}
	for _, k := range cfg.APIKeys {
		if k.Network != nil {
			o.Ceilings[k.Owner] = networkPolicy(*k.Network)
		}
	}
	return o
}

// relayBudget leaves half of the process's descriptors to everything else; each
// connection of a sandbox takes two. perOwner 0 is half of all.
func relayBudget(perOwner int) *relay.Budget {
	most := math.MaxInt32
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		most = int(min(limit.Cur/4, math.MaxInt32))
	}
	return relay.NewBudget(most, cmp.Or(perOwner, max(1, most/2)))
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

// previews signs with a secret of its own, so that tokens outlive the process
// and the API key says nothing about them.
func (d *Daemon) previews(credentials auth.Credentials) (*preview.Previews, error) {
	secret, _, err := auth.KeyFile(d.cfg.PreviewSecretFile())
	if err != nil {
		return nil, err
	}
	return preview.New(preview.Options{
		Manager: d.manager,
		Secret:  []byte(secret),

		Credentials: credentials,

		Domain: d.cfg.Preview.Domain,

		KeepHost: d.cfg.Preview.HostHeader == "original",

		HTTPS:  d.cfg.Preview.HTTPS,
		MaxTTL: d.cfg.Preview.MaxTTL,
	}), nil
}
