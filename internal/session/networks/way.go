package networks

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/events"
	"github.com/sandkasten/sandkasten/internal/network"
	"github.com/sandkasten/sandkasten/internal/network/door"
	"github.com/sandkasten/sandkasten/internal/network/relay"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/protocol"
)

// way is the one way out of a sandbox. It ends with the daemon, and then nothing
// leaves the sandbox until another daemon opens one.
type way struct {
	owner  string
	relay  *relay.Relay
	door   []protocol.Port // on which it listens in the sandbox
	cancel context.CancelFunc
	done   chan struct{} // closed when nothing is carried any more
}

// Attach opens the way out of a session's sandbox, if its policy has one and there is
// none yet, and puts into the sandbox what it needs for its secrets. When it fails
// the sandbox reaches nothing.
func (k *Keeper) Attach(ctx context.Context, s Subject) error {
	if !s.Policy.Opens() || s.Sandbox == nil || k.way(s.ID) != nil {
		return nil
	}
	p, err := k.unsealed(ctx, s)
	if err != nil {
		return err
	}
	if p.rules, err = k.compile(ctx, s, p.Policy.Policy); err != nil {
		return err
	}
	return k.attach(ctx, s, p)
}

// attach is Attach of a network that has rules.
func (k *Keeper) attach(ctx context.Context, s Subject, p Planned) error {
	opened, err := k.openWay(ctx, s, p.rules, k.withValues(ctx, s, p), p.authority)
	if err != nil {
		return err
	}
	s.Policy = p.Policy
	if err := k.trust(ctx, s, p.authority); err != nil {
		opened.close()
		return err
	}
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		opened.close()
		return errdefs.New(errdefs.Unavailable, "the daemon is stopping")
	}
	earlier := k.ways[s.ID]
	k.ways[s.ID], k.logs[s.ID] = opened, opened.relay.Journal()
	k.mu.Unlock()
	if earlier != nil {
		earlier.close()
	}
	return nil
}

// withValues are the secrets of a session as the relay needs them. A stored one that
// is gone is left out: its host then gets the placeholder.
func (k *Keeper) withValues(ctx context.Context, s Subject, p Planned) []network.Secret {
	var all []network.Secret
	for _, shown := range p.Policy.Secrets {
		full := network.Secret{Name: shown.Name, Hosts: shown.Hosts, Header: shown.Header, Query: shown.Query, Value: p.values[shown.Name]}
		if shown.Stored != "" {
			stored, err := k.stored(ctx, s.Owner, shown.Stored)
			if err != nil {
				k.opts.Log.WarnContext(ctx, "a session's stored secret is gone; its hosts get the placeholder", "session", s.ID, "secret", shown.Stored, "err", err)
				continue
			}
			full, full.Name = stored, shown.Name
		}
		full.Placeholder = shown.Placeholder
		all = append(all, full)
	}
	return all
}

// openWay opens the door of a sandbox and has a relay carry what comes through it.
func (k *Keeper) openWay(ctx context.Context, s Subject, rules *network.Rules, secrets []network.Secret, authority *relay.Authority) (*way, error) {
	sandbox, ok := s.Sandbox.(runtime.Networked)
	if !ok {
		return nil, &errdefs.Error{Code: errdefs.Unimplemented, Field: "network.mode", Message: "network.mode must be none: this session's driver gives sandboxes no networks"}
	}
	netns, err := sandbox.NetNS(ctx)
	if err != nil {
		return nil, err
	}
	d, err := door.Open(ctx, netns)
	if err != nil {
		k.opts.Log.ErrorContext(ctx, "a sandbox's network could not be opened", "session", s.ID, "err", err)
		return nil, errdefs.Wrap(err, errdefs.Unavailable, "the sandbox's network could not be opened; `sandkasten doctor` says what this host lacks")
	}
	r := relay.New(relay.Entrance{
		Streams: d.Streams, Queries: d.Queries,
		Datagrams: relay.Datagrams{Sockets: d.Datagrams, Destination: door.Destination, Flow: d.Flow, Carry: d.CarryDatagrams},
	}, rules, relay.Options{
		Names: k.opts.Names, Log: k.opts.Log, Authority: authority, Secrets: secrets, Roots: k.opts.Roots,
		// Behind those of any way of before, also of an earlier daemon's.
		FirstSeq:  uint64(time.Now().UnixMicro()),
		OverQuota: func() bool { return k.opts.OverQuota(s.Owner) != nil },
		Decided:   k.decided(s),
		Budget:    k.opts.Budget,
		Owner:     s.Owner,

		MaxConnections: min(network.DefaultConnections, cmp.Or(k.opts.MaxConnections, network.DefaultConnections)),
	})
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w := &way{owner: s.Owner, relay: r, door: listening(d.Streams), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		err := r.Run(running)
		if closing := d.Close(); closing != nil && !errors.Is(closing, net.ErrClosed) {
			err = errors.Join(err, closing)
		}
		if err != nil {
			k.opts.Log.ErrorContext(running, "a sandbox's network ended; its next use opens it again", "session", s.ID, "err", err)
		}
		k.drop(s.ID, w)
	}()
	return w, nil
}

// listening are the ports of listeners as a sandbox lists them.
func listening(streams []net.Listener) []protocol.Port {
	ports := make([]protocol.Port, 0, len(streams))
	for _, stream := range streams {
		if at, ok := stream.Addr().(*net.TCPAddr); ok {
			address := at.AddrPort().Addr().Unmap()
			ports = append(ports, protocol.Port{Port: at.Port, Address: address.String(), Loopback: address.IsLoopback()})
		}
	}
	return ports
}

// OfDoor reports whether a port in a session's sandbox is the door's, through which its
// connections leave: no program of the session listens there.
func (k *Keeper) OfDoor(session string, port protocol.Port) bool {
	w := k.way(session)
	return w != nil && slices.Contains(w.door, port)
}

// decided publishes what the network of a session decides. How connections end is in
// its log only.
func (k *Keeper) decided(s Subject) func(relay.Event) {
	return func(e relay.Event) {
		if e.Op == relay.OpClose {
			return
		}
		k.opts.Events.Publish(events.Event{
			Type: events.NetworkDecision, Time: e.At, Owner: s.Owner, Session: s.ID, Denied: !e.Allowed, Data: e, Size: len(e.Name) + len(e.Why),
		})
	}
}

// close ends all connections, and returns when none is carried.
func (w *way) close() {
	w.cancel()
	<-w.done
}

// drop forgets a way that has ended, but for its totals.
func (k *Keeper) drop(session string, w *way) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ways[session] == w {
		delete(k.ways, session)
	}
	k.past[w.owner] = sum(k.past[w.owner], w.relay.Totals())
}

// Detach closes the way of a session whose sandbox ends, perhaps for good.
func (k *Keeper) Detach(session string, ended bool) {
	k.mu.Lock()
	w := k.ways[session]
	delete(k.ways, session)
	if ended {
		delete(k.logs, session)
	}
	k.mu.Unlock()
	if w != nil {
		w.close()
	}
}

// apply has another network, which was just planned, hold for a session at once: what
// it does not allow is cut. Without a sandbox there is nothing to do.
func (k *Keeper) apply(ctx context.Context, s Subject, p Planned) error {
	w := k.way(s.ID)
	switch {
	case s.Sandbox == nil:
		return nil
	case !p.Policy.Opens():
		k.Detach(s.ID, false)
		return nil
	case w == nil:
		return k.attach(ctx, s, p)
	}
	s.Policy = p.Policy
	if err := k.trust(ctx, s, p.authority); err != nil {
		return err
	}
	w.relay.SetSecrets(p.authority, k.withValues(ctx, s, p))
	w.relay.SetRules(p.rules)
	return nil
}

// Attached reports whether a session has a way out.
func (k *Keeper) Attached(session string) bool { return k.way(session) != nil }

// sum adds what two ways carried.
func sum(a, b relay.Totals) relay.Totals {
	a.Connections += b.Connections
	a.Opened += b.Opened
	a.Refused += b.Refused
	a.Sent += b.Sent
	a.Received += b.Received
	a.Queries += b.Queries
	a.QueriesRefused += b.QueriesRefused
	a.LimitHits = maps.Clone(a.LimitHits)
	if a.LimitHits == nil {
		a.LimitHits = make(map[relay.Limit]uint64)
	}
	for limit, hits := range b.LimitHits {
		a.LimitHits[limit] += hits
	}
	return a
}
