// Package networks keeps what each session may reach: its policy, the secrets that
// stay outside of its sandbox, and its way out. It decides by package network, opens
// ways by network/door, and has network/relay carry what passes. Sessions, with
// their states and owners, are the core's.
package networks

import (
	"context"
	"crypto/x509"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/events"
	"github.com/sandkasten/sandkasten/internal/network"
	"github.com/sandkasten/sandkasten/internal/network/own"
	"github.com/sandkasten/sandkasten/internal/network/relay"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session/access"
)

// Options configures a Keeper. Without a Store there are no networks: every session
// has mode none, and other modes are refused with Unimplemented.
type Options struct {
	Store Store
	Seal  Sealer // for the values of secrets; nil refuses secrets

	Default  network.Policy            // of a session that asks for nothing; none
	Images   map[string]network.Policy // Default for sessions of an image, by its name
	Ceilings map[string]network.Policy // what an owner's sessions may reach at most; others have no ceiling but Most
	Most     network.Mode              // the widest mode that clients may ask for: full

	AllowPrivate   bool                // policies may open private addresses
	MaxConnections int                 // that a policy may ask for; 0 is network.MostConnections
	Budget         *relay.Budget       // of the connections of all sessions; nil has none
	Groups         map[string][]string // of the operator, by name without '@'
	// ImageGroups are those of an image, which its package clients name. Nil knows none.
	ImageGroups func(ctx context.Context, digest string) (map[string][]string, error)
	// Stored reveals a secret that an owner stored. Nil knows none.
	Stored func(ctx context.Context, owner, name string) (network.Secret, error)

	// OverQuota is an error, for the client, while an owner may use no network any
	// more. It is asked often, and may change its mind. Nil never is.
	OverQuota func(owner string) error

	Events *events.Hub // takes what networks decide; nil takes nothing

	// Engine is the network that a driver's engine gives its sandboxes, in place of ours,
	// or "". Nil is that of none.
	Engine func(driver string) string

	Own   func(netip.Addr) bool // reports an address of the host; nil asks the host
	Names relay.Upstream        // nil asks whom the host asks
	Roots *x509.CertPool        // whom hosts that get secrets have to prove themselves to; nil is the host's
	Log   *slog.Logger          // silence

	// Authorities, as PEM, are trusted in every sandbox with a network, beside those of
	// its image: behind a network that signs TLS anew nothing answers without them.
	Authorities [][]byte
}

// Store keeps the networks of sessions. What it has written survives a crash.
type Store interface {
	// PutNetwork inserts or replaces the network of a session. Public is shown with
	// the session, sealed never.
	PutNetwork(ctx context.Context, session string, public, sealed []byte) error
	// SealedNetwork returns what was sealed, or nothing if there is no network.
	SealedNetwork(ctx context.Context, session string) ([]byte, error)
}

// Sealer encrypts what may not be read on disk. About binds it to its place.
type Sealer interface {
	Seal(plain, about []byte) []byte
	Open(sealed, about []byte) ([]byte, error)
}

// Subject is a session as this package sees it.
type Subject struct {
	ID, Owner, Image, ImageDigest string

	Network runtime.Network // as its driver makes it
	Policy  Policy
	Ended   bool                 // it has no sandbox any more, and never will
	Sandbox runtime.Sandbox      // nil unless it lives
	Client  *runnerclient.Client // of its runner
}

// Sessions is what the service asks of the core.
type Sessions interface {
	// Subject returns a session that p may see or use. It is not activity.
	Subject(ctx context.Context, p auth.Principal, id string, need access.Need) (Subject, error)
	// Lock waits until nobody changes a session of p's that has not ended, and keeps
	// others from changing it until Release is called.
	Lock(ctx context.Context, p auth.Principal, id string) (Held, error)
}

// Held is a session that nobody else changes.
type Held interface {
	Subject() Subject
	// SetPolicy has the session show what it may reach from now on.
	SetPolicy(p Policy)
	Release()
}

// Keeper keeps the networks of all sessions. Its methods may be called concurrently;
// those that change one session's are serialised by the caller.
type Keeper struct {
	opts Options

	mu     sync.Mutex
	ways   map[string]*way           // guarded by mu; open ones, by session
	logs   map[string]*relay.Journal // guarded by mu; of the last way of each session that has not ended
	past   map[string]relay.Totals   // guarded by mu; of ways that are closed, by owner
	closed bool                      // guarded by mu
}

// New returns a Keeper. The caller closes it.
func New(o Options) *Keeper {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Names == nil {
		o.Names = &relay.HostNames{Hosts: "/etc/hosts", Config: "/etc/resolv.conf"}
	}
	if o.Own == nil {
		o.Own = own.Has
	}
	if o.OverQuota == nil {
		o.OverQuota = func(string) error { return nil }
	}
	if o.Most == "" {
		o.Most = network.Full
	}
	return &Keeper{opts: o, ways: make(map[string]*way), logs: make(map[string]*relay.Journal), past: make(map[string]relay.Totals)}
}

// Close closes all ways. Sandboxes then reach nothing.
func (k *Keeper) Close() {
	k.mu.Lock()
	k.closed = true
	open := slices.Collect(maps.Values(k.ways))
	clear(k.ways)
	k.mu.Unlock()
	for _, w := range open {
		w.close()
	}
}

// Made is what a driver is to make for a session.
func (k *Keeper) Made(driver string) runtime.Network {
	if k.opts.Engine != nil && k.opts.Engine(driver) != "" {
		return runtime.Network{Mode: runtime.NetworkEngine}
	}
	return runtime.Network{Mode: runtime.NetworkNone}
}

// Default is the policy of a session that asks for nothing.
func (k *Keeper) Default(image string) network.Policy {
	if of, ok := k.opts.Images[image]; ok {
		return of
	}
	return k.opts.Default
}

// log of what a session's network decided, or nil if it never had one.
func (k *Keeper) log(session string) *relay.Journal {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.logs[session]
}

// way of a session, or nil.
func (k *Keeper) way(session string) *way {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ways[session]
}

func (k *Keeper) operator(ctx context.Context, digest string, p network.Policy) (network.Operator, error) {
	o := network.Operator{AllowPrivate: k.opts.AllowPrivate, MaxConnections: k.opts.MaxConnections, Groups: k.opts.Groups, Own: k.opts.Own}
	if k.opts.ImageGroups == nil || !p.NamesGroups() {
		return o, nil
	}
	of, err := k.opts.ImageGroups(ctx, digest)
	if err != nil {
		return o, errdefs.Wrap(err, errdefs.Unavailable, "the image could not be asked which hosts its package clients use; name hosts instead of groups, or try again")
	}
	o.Groups = merged(of, k.opts.Groups)
	return o, nil
}

// compile makes the rules of a session's policy, within its owner's ceiling.
func (k *Keeper) compile(ctx context.Context, s Subject, p network.Policy) (*network.Rules, error) {
	operator, err := k.operator(ctx, s.ImageDigest, p)
	if err != nil {
		return nil, err
	}
	var within *network.Policy
	if ceiling, ok := k.opts.Ceilings[s.Owner]; ok {
		within = &ceiling
		if of, err := k.operator(ctx, s.ImageDigest, ceiling); err == nil {
			operator.Groups = merged(operator.Groups, of.Groups)
		}
	}
	return network.CompileWithin(p, within, operator)
}

// merged has the groups of both; those of b replace those of a.
func merged(a, b map[string][]string) map[string][]string {
	all := make(map[string][]string, len(a)+len(b))
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}
