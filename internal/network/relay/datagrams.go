package relay

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
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
	names      []string
	lease      *lease

	mu           sync.Mutex
	inner, outer net.Conn // guarded by mu; nil until it is open
	isCut        bool     // guarded by mu
}

// open gives the flow its sockets, unless it was cut.
func (f *flow) open(inner, outer net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inner, f.outer = inner, outer
	return !f.isCut
}

type flowKey struct{ client, to netip.AddrPort }

func (f *flow) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.isCut = true
	if f.inner != nil {
		_ = f.inner.Close()
		_ = f.outer.Close()
	}
}

// send sends a datagram of the client's.
func (f *flow) send(datagram []byte) error {
	f.mu.Lock()
	outer := f.outer
	f.mu.Unlock()
	_, err := outer.Write(datagram)
	return err
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
		f.lease.touch()
		if err := r.pass(ctx, r.sending, min(n, burst)); errors.Is(err, errSpent) {
			continue
		} else if err != nil {
			return
		}
		if err := f.send(buf[:n]); err != nil {
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
	f := &flow{client: client, to: to, names: names}
	cut := event
	cut.Op, cut.Allowed, cut.Why = OpCut, false, evicted
	f.lease = r.opts.Budget.take(r.opts.Owner, func() { r.evict(cut, f.cut) })
	if f.lease == nil {
		r.counters.hit(LimitOwner)
		event.Allowed, event.Why = false, LimitOwner.why()
		r.record(event)
		return nil
	}
	if err := r.openFlow(ctx, f); err != nil {
		r.opts.Budget.leave(f.lease)
		return nil // a datagram may get lost
	}
	return f
}

// openFlow opens the sockets of a flow and carries it.
func (r *Relay) openFlow(ctx context.Context, f *flow) error {
	outer, err := r.opts.Dial(ctx, "udp", f.to.String())
	if err != nil {
		return err
	}
	inner, err := r.entrance.Datagrams.Flow(ctx, f.to, f.client)
	if err != nil {
		return errors.Join(err, outer.Close())
	}
	key := flowKey{f.client, f.to}
	r.mu.Lock()
	// What was decided may have changed, and somebody else may have needed the room.
	if r.stopping || r.spent() != "" || !f.judge(r.Rules()).Allowed || !f.open(inner, outer) {
		r.mu.Unlock()
		return errors.Join(net.ErrClosed, inner.Close(), outer.Close())
	}
	r.flows[key] = f
	r.counters.opened.Add(1)
	r.mu.Unlock()
	r.serving.Go(func() { r.copyDatagrams(ctx, f, inner, outer, r.sending) })
	r.serving.Go(func() {
		r.copyDatagrams(ctx, f, outer, inner, r.receiving)
		f.cut()
		r.opts.Budget.leave(f.lease)
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.flows, key)
	})
	return nil
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
		if isTimeout(err) && time.Since(f.lease.last()) < flowIdle {
			continue // the other direction is in use
		}
		if err != nil {
			return
		}
		f.lease.touch()
		if r.pass(ctx, in, min(n, burst)) != nil {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
