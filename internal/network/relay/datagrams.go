package relay

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/sandkasten/sandkasten/internal/network"
)

const (
	maxFlows    = 128
	flowIdle    = time.Minute
	maxDatagram = 64 << 10
)

// Datagrams are the way of UDP, but for name queries.
type Datagrams struct {
	Sockets     []*net.UDPConn                                                             // get the first datagram of each flow
	Destination func(control []byte) (netip.AddrPort, bool)                                // where one of them was sent
	Flow        func(ctx context.Context, to, client netip.AddrPort) (*net.UDPConn, error) // a socket for the rest of it
	Carry       func(bool) error                                                           // whether there is such a way
}

// flow is one client's with one address.
type flow struct {
	client, to netip.AddrPort
	inner      *net.UDPConn
	outer      net.Conn
	names      []string
	used       atomic.Int64 // when, in nanoseconds
}

type flowKey struct{ client, to netip.AddrPort }

func (f *flow) cut() {
	_ = f.inner.Close()
	_ = f.outer.Close()
}

func (f *flow) judge(rules *network.Rules) network.Verdict {
	return datagramVerdict(rules, f.to, f.names)
}

// datagramVerdict decides on a flow. A list opens none: what datagrams carry cannot
// be looked at, and clients that are refused use TCP.
func datagramVerdict(rules *network.Rules, to netip.AddrPort, names []string) network.Verdict {
	if !carriesDatagrams(rules) {
		return network.Verdict{Why: "mode " + string(rules.Mode()) + " has no UDP"}
	}
	verdict := rules.Connect(to.Addr(), to.Port(), names)
	if verdict.Allowed && verdict.Inspect && !verdict.Raw {
		return network.Verdict{Why: "UDP cannot be looked at for names that are denied; use TCP"}
	}
	return verdict
}

func carriesDatagrams(rules *network.Rules) bool {
	return rules.Mode() == network.Internet || rules.Mode() == network.Full
}

// serveDatagrams begins the flows of one family.
func (r *Relay) serveDatagrams(ctx context.Context, socket *net.UDPConn) {
	buf, control := make([]byte, maxDatagram), make([]byte, 256)
	for {
		n, c, _, client, err := socket.ReadMsgUDPAddrPort(buf, control)
		if err != nil {
			if errors.Is(err, net.ErrClosed) || ctx.Err() != nil {
				return
			}
			continue
		}
		to, ok := r.entrance.Datagrams.Destination(control[:c])
		if !ok {
			continue
		}
		client, to = unmapped(client), unmapped(to)
		f := r.flowOf(ctx, client, to)
		if f == nil {
			continue
		}
		if err := r.pass(ctx, r.sending, min(n, burst)); errors.Is(err, errSpent) {
			continue
		} else if err != nil {
			return
		}
		if _, err := f.outer.Write(buf[:n]); err != nil {
			f.cut()
		}
	}
}

// flowOf is the flow of a client with an address, or nil if there must be none.
func (r *Relay) flowOf(ctx context.Context, client, to netip.AddrPort) *flow {
	r.mu.Lock()
	known, stopping := r.flows[flowKey{client, to}], r.stopping
	if known != nil || stopping {
		r.mu.Unlock()
		return known
	}
	limit := r.limitHit()
	if len(r.flows) >= maxFlows && limit == "" {
		limit = LimitFlows
	}
	r.mu.Unlock()
	names := r.resolver.namesOf(to.Addr())
	verdict := datagramVerdict(r.Rules(), to, names)
	if limit != "" {
		r.counters.hit(limit)
		verdict = network.Verdict{Why: limit.why()}
	}
	event := Event{Op: OpDatagrams, Addr: to.Addr(), Port: to.Port(), Allowed: verdict.Allowed, Why: verdict.Why}
	if len(names) > 0 {
		event.Name = names[0]
	}
	r.record(event)
	if !verdict.Allowed {
		return nil
	}
	f, err := r.openFlow(ctx, client, to, names)
	if err != nil {
		return nil // a datagram may get lost
	}
	return f
}

func (r *Relay) openFlow(ctx context.Context, client, to netip.AddrPort, names []string) (*flow, error) {
	outer, err := r.opts.Dial(ctx, "udp", to.String())
	if err != nil {
		return nil, err
	}
	inner, err := r.entrance.Datagrams.Flow(ctx, to, client)
	if err != nil {
		return nil, errors.Join(err, outer.Close())
	}
	f := &flow{client: client, to: to, inner: inner, outer: outer, names: names}
	f.used.Store(time.Now().UnixNano())
	r.mu.Lock()
	if r.stopping || r.spent() != "" || !f.judge(r.Rules()).Allowed { // that may have changed since it was decided
		r.mu.Unlock()
		f.cut()
		return nil, net.ErrClosed
	}
	r.flows[flowKey{client, to}] = f
	r.counters.opened.Add(1)
	r.mu.Unlock()
	r.serving.Go(func() { r.copyDatagrams(ctx, f, f.inner, f.outer, r.sending) })
	r.serving.Go(func() {
		r.copyDatagrams(ctx, f, f.outer, f.inner, r.receiving)
		f.cut()
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.flows, flowKey{client, to})
	})
	return f, nil
}

// copyDatagrams copies one direction until the flow is cut or idle.
func (r *Relay) copyDatagrams(ctx context.Context, f *flow, from, to net.Conn, in *direction) {
	defer f.cut() // and so ends the other direction
	buf := make([]byte, maxDatagram)
	for {
		if err := from.SetReadDeadline(time.Now().Add(flowIdle)); err != nil {
			return
		}
		n, err := from.Read(buf)
		if isTimeout(err) && time.Since(time.Unix(0, f.used.Load())) < flowIdle {
			continue // the other direction is in use
		}
		if err != nil {
			return
		}
		f.used.Store(time.Now().UnixNano())
		if r.pass(ctx, in, min(n, burst)) != nil {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
