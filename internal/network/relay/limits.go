package relay

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/time/rate"

	"github.com/sandkasten/sandkasten/internal/protection"
)

// Limit names one of a relay's limits. Those of a policy are named as in the API.
type Limit string

// The limits.
const (
	LimitConnections Limit = "max_connections"
	LimitNew         Limit = "connections_per_second"
	LimitBytes       Limit = "max_mb"
	LimitFlows       Limit = "udp_flows" // at once; no policy changes it, nor the next two
	LimitRequests    Limit = "requests"  // of HTTP at once
	LimitQueries     Limit = "queries"   // to the upstream
	LimitQuota       Limit = "network_mb_per_month"
	LimitOwner       Limit = "max_connections_per_owner" // of all relays of an owner, or of all owners together

	limitStopping Limit = "stopping" // at the relay's end
)

// why is the reason of what a limit refuses.
func (l Limit) why() string {
	switch l {
	case LimitConnections:
		return "the limit of connections at once (max_connections)"
	case LimitNew:
		return "the limit of new connections per second (connections_per_second)"
	case LimitBytes:
		return "the limit of all bytes together is reached (max_mb)"
	case LimitFlows:
		return "the limit of flows of UDP at once"
	case LimitOwner:
		return "the limit of connections of all sessions of the owner together (network.max_connections_per_owner), or the host has no room for more"
	case LimitQuota:
		return "the owner's quota of the month is used up (network_mb_per_month)"
	}
	return "the relay stops"
}

// limitHit is the limit that another connection hits, or "". The caller holds mu.
func (r *Relay) limitHit() Limit {
	most := r.Rules().MaxConnections()
	if most == 0 {
		most = r.opts.MaxConnections
	}
	most = protection.Wider(protection.MaxConnections, most, 100)
	spent := r.spent()
	switch {
	case spent != "":
		return spent
	case len(r.carried)+len(r.flows) >= most:
		return LimitConnections
	case !r.fresh.Allow():
		return LimitNew
	}
	return ""
}

// maxBytes is the limit of all bytes together, or 0.
func (r *Relay) maxBytes() int64 { return int64(r.Rules().MaxMB()) << 20 }

// spent is the limit that lets no byte pass any more, or "".
func (r *Relay) spent() Limit {
	if r.opts.OverQuota != nil && r.opts.OverQuota() {
		return LimitQuota
	}
	most := r.maxBytes()
	if most > 0 && r.sending.bytes.Load()+r.receiving.bytes.Load() >= most {
		return LimitBytes
	}
	return ""
}

// cutSpent cuts all connections once no byte may pass any more.
func (r *Relay) cutSpent() {
	switch r.spent() {
	case LimitQuota:
		if r.cutByQuota.CompareAndSwap(false, true) {
			r.cutAll(LimitQuota)
		}
		return
	case LimitBytes:
		most := r.maxBytes()
		if before := r.cutAt.Load(); before != most && r.cutAt.CompareAndSwap(before, most) {
			r.cutAll(LimitBytes)
		}
	}
	if r.cutByQuota.Load() {
		r.cutByQuota.Store(false)
	}
}

// cutAll cuts all connections for a limit.
func (r *Relay) cutAll(why Limit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.carried {
		r.record(Event{Op: OpCut, Name: c.host(), Addr: c.to.Addr(), Port: c.to.Port(), Why: why.why()})
		c.cut()
	}
	for _, f := range r.flows {
		r.record(Event{Op: OpCut, Addr: f.to.Addr(), Port: f.to.Port(), Why: why.why()})
		f.cut()
	}
}

// burst is how many bytes may pass at once under a limit.
const burst = 64 << 10

func bytesPerSecond(mbit int) rate.Limit {
	if mbit == 0 {
		return rate.Inf
	}
	return rate.Limit(mbit) * 1e6 / 8
}

// direction is one of the two in which bytes pass.
type direction struct {
	limit *rate.Limiter // Inf is none
	bytes atomic.Int64
}

func newDirection() *direction { return &direction{limit: rate.NewLimiter(rate.Inf, burst)} }

var errSpent = errors.New("the limit of all bytes together is reached")

// pass counts bytes, at most burst of them, and waits until they may pass.
func (r *Relay) pass(ctx context.Context, d *direction, n int) error {
	r.count(d, n)
	if r.spent() != "" {
		return errSpent
	}
	return d.limit.WaitN(ctx, n)
}

// count counts bytes that pass whatever the limit per second is.
func (r *Relay) count(d *direction, n int) {
	d.bytes.Add(int64(n))
	r.cutSpent()
}

// metered is what passes in one direction of a connection. The kernel does not move
// the bytes by itself, which would count them at the end only.
type metered struct {
	from net.Conn // of the kernel's
	ctx  context.Context
	of   *connection
	in   *direction
}

// buffers are those of connections on which bytes pass at the moment.
var buffers = sync.Pool{New: func() any { return new([burst]byte) }}

// copyTo copies until the end of from. A connection on which nothing passes has no
// buffer.
func (m metered) copyTo(to io.Writer) (total int64, err error) {
	raw, err := m.from.(syscall.Conn).SyscallConn()
	if err != nil {
		return 0, err
	}
	for {
		n, err := m.move(raw, to)
		total += int64(n)
		switch {
		case errors.Is(err, io.EOF):
			return total, nil
		case err != nil:
			return total, err
		}
	}
}

// move waits for the next bytes and passes them on.
func (m metered) move(raw syscall.RawConn, to io.Writer) (n int, err error) {
	var buf *[burst]byte
	defer func() {
		if buf != nil {
			buffers.Put(buf)
		}
	}()
	waited := raw.Read(func(fd uintptr) (done bool) {
		buf = buffers.Get().(*[burst]byte)
		n, err = syscall.Read(int(fd), buf[:])
		for errors.Is(err, syscall.EINTR) {
			n, err = syscall.Read(int(fd), buf[:])
		}
		if !errors.Is(err, syscall.EAGAIN) {
			return true
		}
		buffers.Put(buf)
		buf = nil
		return false
	})
	switch {
	case waited != nil: // closed, or its deadline has passed
		return 0, waited
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	if err := m.of.pass(m.ctx, m.in, n); err != nil {
		return 0, err
	}
	return to.Write(buf[:n])
}
