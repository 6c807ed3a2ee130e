package relay

import (
	"context"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandkasten/sandkasten/internal/network"
	"github.com/sandkasten/sandkasten/internal/protection"
)

// connection is one of the sandbox's, and the one that it is joined with.
type connection struct {
	relay  *Relay
	client *net.TCPConn
	to     netip.AddrPort // where it leads
	opened sync.Once      // when it is let through
	lease  atomic.Pointer[lease]

	guarded bool // it paused in what may become HTTP, see guard; set before it is joined

	mu     sync.Mutex
	names  []string // guarded by mu; that stood for the address when it began, or when it named one
	named  string   // guarded by mu; the host that it named itself last, or ""
	server net.Conn // guarded by mu; nil until there is one
	isCut  bool     // guarded by mu
	isRaw  bool     // guarded by mu; it was let through without naming a host
}

// serve decides on the connection and carries it to its end.
func (c *connection) serve(ctx context.Context) {
	defer c.client.Close() //nolint:errcheck // what was to be written is written
	if c.to.Port() == dnsPort {
		c.relay.resolver.serveStream(ctx, c.client)
		return
	}
	names := c.refreshNames()
	rules := c.relay.Rules()
	verdict := rules.Connect(c.to.Addr(), c.to.Port(), names)
	switch {
	case !verdict.Allowed && !rules.MayName(c.to.Addr(), c.to.Port()):
		c.refuse(verdict.Why)
	case verdict.Allowed && !verdict.Inspect && !c.relay.hasSecrets(names):
		c.join(ctx, verdict.Why, nil)
	default:
		c.inspect(ctx, verdict)
	}
}

// refreshNames has the connection know the names that stand for its address now.
func (c *connection) refreshNames() []string {
	names := c.relay.resolver.namesOf(c.to.Addr())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.names = names
	return names
}

func (c *connection) pinned() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.names
}

// decide decides on a host that the connection names. Where no query of the sandbox
// has told yet that the host is at the address, as for a client that kept it from
// before the relay began, the relay asks for itself.
func (c *connection) decide(ctx context.Context, name string) network.Verdict {
	c.setNamed(name)
	rules, addr, port := c.relay.Rules(), c.to.Addr(), c.to.Port()
	names := c.pinned()
	if !slices.Contains(names, name) && rules.MayName(addr, port) && rules.Name(name, addr, port, []string{name}).Allowed && rules.Resolve(name).Allowed {
		c.relay.resolver.lookUp(ctx, questionFor(name, addr))
		names = c.refreshNames()
	}
	if verdict := rules.Connect(addr, port, names); !verdict.Allowed {
		return verdict
	}
	return rules.Name(name, addr, port, names)
}

// remedy is the entry that opens the connection to a client that shows that much.
func (c *connection) remedy(shows network.Shown) string {
	if shows != network.ShowsHost && c.relay.hasSecrets(c.pinned()) {
		return "" // of which each has to name its host
	}
	return c.relay.Rules().Remedy(network.Attempt{Name: c.host(), Addr: c.to.Addr(), Port: c.to.Port(), Shows: shows})
}

// inspect looks at what the client says first. A verdict that refuses holds unless
// that names an allowed host.
func (c *connection) inspect(ctx context.Context, verdict network.Verdict) {
	wait := helloTimeout
	switch {
	case verdict.Raw:
		wait = silentTimeout
	case !verdict.Allowed:
		wait = refusedTimeout
	}
	first, err := c.peek(wait)
	if len(first) == 0 && verdict.Raw && isTimeout(err) {
		spoken := false
		if first, err, spoken = c.awaitSpeaker(ctx, verdict.Why); spoken {
			return
		}
	}
	switch {
	case len(first) == 0 && !verdict.Allowed:
		c.refuseAs(first, verdict.Why, c.remedy(network.ShowsHost))
	case len(first) == 0:
		// Clients try several addresses at once and leave those that they do not need.
		c.relay.record(c.event(OpConnect, !isTimeout(err), "it said nothing"))
	case first[0] == recordHandshake:
		c.inspectTLS(ctx, first, verdict.Inspect || !verdict.Allowed)
	case looksLikeHTTP(first):
		c.relay.web.carry(ctx, c, first, nil)
	case verdict.Raw:
		c.passRaw()
		c.guarded = isTimeout(err) && undecided(first)
		c.join(ctx, verdict.Why, first)
	case !verdict.Allowed:
		c.refuseAs(first, verdict.Why, c.remedy(network.ShowsRaw))
	default:
		c.refuseAs(first, "it is neither TLS nor HTTP, and no entry of allow names this port", c.remedy(network.ShowsRaw))
	}
}

// maxPeek is how many bytes tell what a client speaks.
const maxPeek = 32

// peek reads the first bytes, which whoever goes on has to read first: until they
// tell what the client speaks, and no longer than wait.
func (c *connection) peek(wait time.Duration) (first []byte, err error) {
	if err := c.client.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return nil, err
	}
	if first, err = c.readFirst(); err == nil {
		err = c.client.SetReadDeadline(time.Time{})
	}
	return first, err
}

// readFirst is peek until the deadline that the client's side has.
func (c *connection) readFirst() (first []byte, err error) {
	buf := make([]byte, maxPeek)
	for err == nil && undecided(first) {
		var n int
		n, err = c.client.Read(buf[len(first):])
		first = buf[:len(first)+n]
	}
	return first, err
}

// undecided reports whether the first bytes of a client can still become HTTP, or
// something else.
func undecided(first []byte) bool { return len(first) < maxPeek && mayBecomeHTTP(first) }

// awaitSpeaker joins a connection whose client is silent if its server speaks first,
// and reports whether it has. Else it returns what the client said, and how that ended.
func (c *connection) awaitSpeaker(ctx context.Context, why string) (first []byte, ended error, spoken bool) {
	server, err := c.dial(ctx)
	if err != nil {
		c.notReached(err)
		return nil, nil, true
	}
	_ = c.client.SetReadDeadline(time.Now().Add(idleTimeout)) // before the server can end it
	heard := make(chan []byte, 1)
	c.relay.serving.Go(func() {
		buf := make([]byte, burst)
		n, _ := server.Read(buf)
		_ = c.client.SetReadDeadline(time.Unix(1, 0)) // the client need not speak any more
		heard <- buf[:n]
	})
	first, ended = c.readFirst()
	_ = server.SetReadDeadline(time.Unix(1, 0))
	greeting := <-heard
	_ = c.client.SetReadDeadline(time.Time{})
	if len(greeting) == 0 {
		_ = server.Close() // a server that has ended counts as silent, and is dialled again
		return first, ended, false
	}
	defer server.Close()
	_ = server.SetReadDeadline(time.Time{})
	c.passRaw()
	if c.pass(ctx, c.relay.receiving, len(greeting)) != nil {
		return nil, nil, true
	}
	if _, err := c.client.Write(greeting); err != nil {
		return nil, nil, true
	}
	c.relay.record(c.event(OpConnect, true, why))
	sent, received := c.carry(ctx, server, first)
	c.closed(sent, received+int64(len(greeting)))
	return nil, nil, true
}

func isTimeout(err error) bool {
	timeout, ok := err.(interface{ Timeout() bool })
	return ok && timeout.Timeout()
}

func (c *connection) inspectTLS(ctx context.Context, first []byte, strict bool) {
	hello, read, err := readHello(ctx, c.client, first)
	if err != nil {
		c.refuseAs(read, err.Error(), "")
		return
	}
	name, err := network.NormalName(hello.name)
	switch {
	case hello.name == "":
		c.refuseAs(read, "its TLS does not say which host it is for", c.remedy(network.ShowsNone))
		return
	case err != nil:
		c.refuseAs(read, "its TLS names no host: "+err.Error(), c.remedy(network.ShowsNone))
		return
	case hello.encrypted && strict:
		c.refuseAs(read, "its TLS hides which host it is for (ECH)", c.remedy(network.ShowsNone))
		return
	}
	if names := c.pinned(); len(names) > 0 && protection.Off(protection.ServerNames) {
		name = names[0]
	}
	verdict := c.decide(ctx, name)
	if !verdict.Allowed {
		c.refuseAs(read, verdict.Why, c.remedy(network.ShowsHost))
		return
	}
	if len(c.relay.secretsOf(name)) > 0 {
		cert, err := c.relay.secrets.Load().authority.leaf(name)
		if err != nil {
			c.refuseAs(read, "no certificate could be made", "")
			return
		}
		c.relay.web.carry(ctx, c, read, cert)
		return
	}
	c.join(ctx, verdict.Why, read)
}

// join dials where the connection leads and carries both directions to their ends.
// The server gets first before what the client says from now on.
func (c *connection) join(ctx context.Context, why string, first []byte) {
	server, err := c.dial(ctx)
	if err != nil {
		c.notReached(err)
		return
	}
	defer server.Close()
	c.relay.record(c.event(OpConnect, true, why))
	c.closed(c.carry(ctx, server, first))
}

func (c *connection) notReached(err error) {
	c.relay.record(c.event(OpConnect, true, "not reached: "+plainError(err)))
	reset(c.client)
}

func (c *connection) closed(sent, received int64) {
	end := c.event(OpClose, true, "")
	end.Sent, end.Received = sent, received
	c.relay.record(end)
}

// passRaw notes that the connection names no host, as its rules let it.
func (c *connection) passRaw() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isRaw = true
}

// dial connects to where the connection leads, unless it was cut.
func (c *connection) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	server, err := c.relay.opts.Dial(ctx, "tcp", c.to.String())
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// The rules may have changed since they decided.
	if c.isCut || !c.verdict(c.relay.Rules()).Allowed {
		_ = server.Close()
		return nil, net.ErrClosed
	}
	c.server = server
	c.countOpened()
	return server, nil
}

// carry copies both directions. When one ends, the other side is told.
func (c *connection) carry(ctx context.Context, server net.Conn, first []byte) (sent, received int64) {
	_ = c.client.SetReadDeadline(time.Time{})
	var back sync.WaitGroup
	back.Go(func() {
		received = c.copyTo(ctx, c.client, server)
		_ = c.client.CloseWrite()
	})
	if len(first) > 0 {
		n, err := 0, c.pass(ctx, c.relay.sending, len(first))
		if err == nil {
			n, err = server.Write(first)
		}
		sent = int64(n)
		if err != nil {
			c.cut()
		}
	}
	if c.guarded {
		sent += c.guard(ctx, server, first)
	}
	sent += c.copyTo(ctx, server, c.client)
	_ = server.SetReadDeadline(time.Now().Add(idleTimeout)) // the client may be gone for good
	if half, ok := server.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	back.Wait()
	return sent, received
}

// guard passes on what the client says after a pause, until that is no HTTP for certain,
// and cuts the connection before a request goes to a host that nobody has looked at. What
// the server has got by then are letters.
func (c *connection) guard(ctx context.Context, server net.Conn, said []byte) (sent int64) {
	said = append(make([]byte, 0, maxPeek), said...)
	for undecided(said) {
		n, err := c.client.Read(said[len(said):maxPeek])
		if err != nil {
			return sent // which who goes on finds, too
		}
		fresh := said[len(said) : len(said)+n]
		if said = said[:len(said)+n]; looksLikeHTTP(said) {
			c.relay.record(c.event(OpCut, false, "it paused within a request of HTTP, whose host was not looked at"))
			c.cut()
			return sent
		}
		if c.pass(ctx, c.relay.sending, n) != nil {
			return sent
		}
		if n, err = server.Write(fresh); err != nil {
			return sent + int64(n)
		}
		sent += int64(n)
	}
	return sent
}

// copyTo copies until the end of from.
func (c *connection) copyTo(ctx context.Context, to io.Writer, from net.Conn) int64 {
	in := c.relay.sending
	if to == c.client {
		in = c.relay.receiving
	}
	n, err := metered{from, ctx, c, in}.copyTo(to)
	if err != nil {
		c.cut()
	}
	return n
}

// pass is the relay's, of bytes of this connection.
func (c *connection) pass(ctx context.Context, d *direction, n int) error {
	c.lease.Load().touch()
	return c.relay.pass(ctx, d, n)
}

// countOpened counts the connection among those that were let through, once.
func (c *connection) countOpened() {
	c.opened.Do(func() { c.relay.counters.opened.Add(1) })
}

// cut ends the connection in both directions.
func (c *connection) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isCut = true
	reset(c.client)
	if c.server != nil {
		_ = c.server.Close()
	}
}

func (c *connection) setNamed(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.named = name
}

// judge decides on the connection as it is by other rules.
func (c *connection) judge(rules *network.Rules) network.Verdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.verdict(rules)
}

// verdict is judge for a caller who holds mu.
func (c *connection) verdict(rules *network.Rules) network.Verdict {
	if c.to.Port() == dnsPort {
		return network.Verdict{Allowed: rules.Mode() != network.None, Why: "mode none"}
	}
	verdict := rules.Connect(c.to.Addr(), c.to.Port(), c.names)
	switch {
	case !verdict.Allowed || !verdict.Inspect:
		return verdict
	case c.named != "":
		return rules.Name(c.named, c.to.Addr(), c.to.Port(), c.names)
	case c.server != nil && !(verdict.Raw && c.isRaw):
		return network.Verdict{Why: "it has not named its host"}
	}
	return verdict
}

// host is the name that the connection is for, as far as it is known.
func (c *connection) host() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.named != "":
		return c.named
	case len(c.names) > 0:
		return c.names[0]
	}
	return ""
}

func (c *connection) event(op Op, allowed bool, why string) Event {
	return Event{Op: op, Name: c.host(), Addr: c.to.Addr(), Port: c.to.Port(), Allowed: allowed, Why: why}
}

// refuse is refuseAs for a client that has not been heard.
func (c *connection) refuse(why string) {
	first, _ := c.peek(refusedTimeout)
	shows := network.ShowsHost
	if len(first) > 0 && first[0] != recordHandshake && !looksLikeHTTP(first) {
		shows = network.ShowsRaw
	}
	c.refuseAs(first, why, c.remedy(shows))
}

// refuseAs ends the connection and says why in the client's own protocol, as far as
// its first bytes tell that. The entry is the one that opens it.
func (c *connection) refuseAs(first []byte, why, entry string) {
	event := c.event(OpConnect, false, why)
	event.Entry = entry
	c.relay.record(event)
	_ = c.client.SetWriteDeadline(time.Now().Add(refusedTimeout))
	switch {
	case len(first) > 0 && first[0] == recordHandshake:
		_, _ = c.client.Write(alertAccessDenied)
	case looksLikeHTTP(first):
		_, _ = io.WriteString(c.client, forbidden(why))
	default:
		reset(c.client)
		return
	}
	// What the client still sends would have the kernel take the answer back.
	_ = c.client.CloseWrite()
	_ = c.client.SetReadDeadline(time.Now().Add(refusedTimeout))
	_, _ = io.Copy(io.Discard, io.LimitReader(c.client, burst))
}
