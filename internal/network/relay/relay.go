// Package relay carries what a sandbox may reach between its network namespace and
// the host's network: it answers its name queries, remembers which address stood
// for which name, and joins connections that its rules allow. It decides by package
// network and takes connections from package door; it knows nothing of sessions.
package relay

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/sandkasten/sandkasten/internal/network"
	"github.com/sandkasten/sandkasten/internal/protection"
)

// Options configures a Relay. Names is required.
type Options struct {
	Names Upstream
	Dial  func(ctx context.Context, network, address string) (net.Conn, error) // from the host's network, as of a net.Dialer
	Log   *slog.Logger                                                         // silence

	// Authority stands for the hosts of Secrets, whose certificates are checked by
	// Roots: the host's. There are no secrets without it.
	Authority *Authority
	Secrets   []network.Secret
	Roots     *x509.CertPool

	// FirstSeq is where the numbers of events begin: LastSeq of the journal of an
	// earlier relay of the same sandbox, or 0.
	FirstSeq uint64

	// OverQuota reports whether nothing may pass any more, whatever the rules say. It
	// is asked often, and may change its mind. Nil is never.
	OverQuota func() bool

	// Decided is told each event that the journal keeps, and does not block. Nil is told
	// nothing.
	Decided func(Event)

	// Budget is the daemon's, of which the relay takes a place of Owner's for each
	// connection. Nil has places for all.
	Budget *Budget
	Owner  string

	// The defaults of what rules do not limit.
	MaxConnections int        // at once: 256
	NewPerSecond   rate.Limit // connections: 100
	NewBurst       int        // of them: 256
}

const (
	dialTimeout    = 10 * time.Second
	helloTimeout   = 10 * time.Second       // for the first bytes of a connection that has to name its host
	silentTimeout  = 300 * time.Millisecond // after which a server is taken to speak first
	refusedTimeout = time.Second            // for what is refused to show how to tell it
	idleTimeout    = 10 * time.Minute       // for one side alone
	floodPause     = 5 * time.Millisecond   // after a connection over a limit
	outerBuffer    = 1 << 20                // of the kernel, for each direction of a connection outside
)

// Entrance is where the connections and queries of one sandbox arrive.
type Entrance struct {
	Streams   []net.Listener
	Queries   []*net.UDPConn
	Datagrams Datagrams // may be empty: then there is no UDP
}

// Relay is one sandbox's. Run serves it.
type Relay struct {
	opts               Options
	entrance           Entrance
	rules              atomic.Pointer[network.Rules]
	secrets            atomic.Pointer[secretSet]
	journal            Journal
	resolver           *resolver
	web                *webProxy
	fresh              *rate.Limiter
	sending, receiving *direction
	counters           *counters
	cutAt              atomic.Int64 // the total of bytes at which all was cut; 0 before that
	cutByQuota         atomic.Bool  // since OverQuota
	changing           sync.Mutex   // held while rules are replaced

	mu       sync.Mutex
	carried  map[*connection]struct{} // guarded by mu
	flows    map[flowKey]*flow        // guarded by mu
	stopping bool                     // guarded by mu
	serving  sync.WaitGroup
}

// New returns a Relay that lets pass what rules allow.
func New(entrance Entrance, rules *network.Rules, o Options) *Relay {
	if o.Dial == nil {
		o.Dial = dialBounded
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.MaxConnections == 0 {
		o.MaxConnections = network.DefaultConnections
	}
	if o.NewPerSecond == 0 {
		o.NewPerSecond = network.DefaultConnectionsPerSecond
	}
	if o.NewBurst == 0 {
		o.NewBurst = network.DefaultConnections
	}
	r := &Relay{opts: o, entrance: entrance, fresh: rate.NewLimiter(o.NewPerSecond, o.NewBurst), sending: newDirection(), receiving: newDirection(), counters: newCounters(), carried: make(map[*connection]struct{}), flows: make(map[flowKey]*flow)}
	r.journal.seq = o.FirstSeq
	r.resolver = newResolver(r)
	r.web = newWebProxy(r)
	r.SetSecrets(o.Authority, o.Secrets)
	r.SetRules(rules)
	return r
}

// Journal has what the relay decided lately.
func (r *Relay) Journal() *Journal { return &r.journal }

// SetRules replaces the rules and cuts the connections that they do not allow. Of
// connections over a limit of their number it cuts none.
func (r *Relay) SetRules(rules *network.Rules) {
	r.changing.Lock()
	defer r.changing.Unlock()
	r.rules.Store(rules)
	r.sending.limit.SetLimit(bytesPerSecond(rules.MaxMbit()))
	r.receiving.limit.SetLimit(bytesPerSecond(rules.MaxMbit()))
	fresh, freshBurst := r.opts.NewPerSecond, r.opts.NewBurst
	if n := rules.ConnectionsPerSecond(); n > 0 {
		fresh, freshBurst = rate.Limit(n), n
	}
	r.fresh.SetLimit(fresh)
	r.fresh.SetBurst(freshBurst)
	r.cutAt.Store(0)
	r.cutSpent()
	r.resolver.forget()
	r.web.forget()
	if carry := r.entrance.Datagrams.Carry; carry != nil {
		if err := carry(carriesDatagrams(rules)); err != nil {
			r.opts.Log.Warn("the way of datagrams cannot be changed", "err", err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.carried {
		if v := c.judge(rules); !v.Allowed && !protection.Off(protection.CutOnChange) {
			r.record(Event{Op: OpCut, Name: c.host(), Addr: c.to.Addr(), Port: c.to.Port(), Why: v.Why})
			c.cut()
		}
	}
	for _, f := range r.flows {
		if v := f.judge(rules); !v.Allowed {
			r.record(Event{Op: OpCut, Addr: f.to.Addr(), Port: f.to.Port(), Why: v.Why})
			f.cut()
		}
	}
}

// secretSet is which secrets there are, and the authority that stands for their hosts.
type secretSet struct {
	authority *Authority
	secrets   *network.Secrets
}

// SetSecrets replaces the secrets for the connections that begin from now on, and for
// the next request of others. There are none without an authority.
func (r *Relay) SetSecrets(authority *Authority, secrets []network.Secret) {
	r.secrets.Store(&secretSet{authority, network.CompileSecrets(secrets)})
}

// secretsOf are the secrets that a host may get.
func (r *Relay) secretsOf(name string) []network.Compiled {
	set := r.secrets.Load()
	if set.authority == nil {
		return nil
	}
	return set.secrets.For(name)
}

// hasSecrets reports whether one of the names may get secrets.
func (r *Relay) hasSecrets(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return len(r.secretsOf(name)) > 0 })
}

// Rules are those in force.
func (r *Relay) Rules() *network.Rules { return r.rules.Load() }

// Run serves until ctx is done. It closes what it was given, all connections and the
// journal.
func (r *Relay) Run(ctx context.Context) error {
	var failed error
	var once sync.Once
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	fail := func(err error) {
		if err != nil && !errors.Is(err, net.ErrClosed) {
			once.Do(func() { failed = err; cancel(err) })
		}
	}
	for _, stream := range r.entrance.Streams {
		r.serving.Go(func() { fail(r.accept(ctx, stream)) })
	}
	for _, queries := range r.entrance.Queries {
		r.serving.Go(func() { r.resolver.serve(ctx, queries) })
	}
	for _, datagrams := range r.entrance.Datagrams.Sockets {
		r.serving.Go(func() { r.serveDatagrams(ctx, datagrams) })
	}
	r.serving.Go(func() { r.web.serve() })
	<-ctx.Done()
	r.stop()
	r.serving.Wait()
	r.journal.Close()
	return failed
}

func (r *Relay) stop() {
	for _, stream := range r.entrance.Streams {
		_ = stream.Close() // it is nobody's but ours
	}
	for _, queries := range slices.Concat(r.entrance.Queries, r.entrance.Datagrams.Sockets) {
		_ = queries.Close()
	}
	r.web.close()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopping = true
	for c := range r.carried {
		c.cut()
	}
	for _, f := range r.flows {
		f.cut()
	}
}

// accept takes connections of one family.
func (r *Relay) accept(ctx context.Context, stream net.Listener) error {
	for {
		conn, err := stream.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) || ctx.Err() != nil {
				return nil
			}
			var temporary net.Error
			if errors.As(err, &temporary) { // no descriptor, or one that ended before it was taken
				select {
				case <-time.After(10 * time.Millisecond):
					continue
				case <-ctx.Done():
					return nil
				}
			}
			return err
		}
		to, ok := conn.LocalAddr().(*net.TCPAddr)
		tcp, isTCP := conn.(*net.TCPConn)
		if !ok || !isTCP {
			_ = conn.Close()
			continue
		}
		c := &connection{relay: r, client: tcp, to: unmapped(to.AddrPort())}
		if limit := r.admit(c); limit != "" {
			r.counters.hit(limit)
			r.record(Event{Op: OpConnect, Addr: c.to.Addr(), Port: c.to.Port(), Why: limit.why()})
			reset(tcp)
			select { // a flood costs those who make it more than us
			case <-time.After(floodPause):
			case <-ctx.Done():
			}
			continue
		}
		r.serving.Go(func() {
			defer r.leave(c)
			c.serve(ctx)
		})
	}
}

func unmapped(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

// admit counts a connection, or returns the limit that it hits.
func (r *Relay) admit(c *connection) Limit {
	if limit := r.enter(c); limit != "" {
		return limit
	}
	lease := r.opts.Budget.take(r.opts.Owner, func() { r.evict(c.event(OpCut, false, evicted), c.cut) })
	if lease == nil {
		r.leave(c)
		return LimitOwner
	}
	c.lease.Store(lease)
	return ""
}

// enter is admit as far as this relay alone decides.
func (r *Relay) enter(c *connection) Limit {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopping {
		return limitStopping
	}
	if limit := r.limitHit(); limit != "" {
		return limit
	}
	r.carried[c] = struct{}{}
	return ""
}

const evicted = "its owner has more connections than an equal share of what the host has room for, and nothing passed on this one for the longest time"

// evict ends what somebody else needs the room of.
func (r *Relay) evict(event Event, cut func()) {
	r.record(event)
	cut()
}

func (r *Relay) leave(c *connection) {
	r.opts.Budget.leave(c.lease.Load())
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.carried, c)
}

// Connections is how many there are, flows of UDP among them.
func (r *Relay) Connections() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.carried) + len(r.flows)
}

// reset ends a connection so that its other end sees a refusal.
func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}

// dialBounded dials with bounded buffers: what the kernel keeps of a connection outside
// is memory that the daemon is charged for.
func dialBounded(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if c, ok := conn.(interface {
		SetReadBuffer(bytes int) error
		SetWriteBuffer(bytes int) error
	}); ok {
		if err := errors.Join(c.SetReadBuffer(outerBuffer), c.SetWriteBuffer(outerBuffer)); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return conn, nil
}
