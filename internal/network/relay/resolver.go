package relay

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/time/rate"

	"github.com/sandkasten/sandkasten/internal/network"
)

const dnsPort = 53

// Upstream answers what the relay does not know. The answer may be shared and must
// not be changed.
type Upstream interface {
	Exchange(ctx context.Context, query *dns.Msg) (*dns.Msg, error)
}

const (
	queryTimeout  = 5 * time.Second
	streamIdle    = 10 * time.Second // of queries over TCP
	maxPinned     = 4096             // addresses that names are remembered for
	maxCached     = 1024
	maxNames      = 32 // that one address stands for
	maxWorkers    = 64 // queries that are answered at once
	maxAnswers    = 16
	minTTL        = 5 * time.Second
	maxTTL        = 5 * time.Minute
	pinGrace      = 2 * time.Minute // beyond the TTL, for clients that are slow to use an answer
	maxAsked      = 32              // queries to the upstream at once
	queriesPerSec = 500
	queryBurst    = 500
	askedPerSec   = 50
	askedBurst    = 100
)

// resolver answers the name queries of one sandbox. What it answers it pins: an
// address stands for the names that led to it.
type resolver struct {
	relay   *Relay
	queries *rate.Limiter
	asked   *rate.Limiter
	asking  chan struct{} // a token for each query to the upstream

	mu    sync.Mutex
	pins  map[netip.Addr]map[string]time.Time // guarded by mu; until when each name stands for the address
	cache map[question]answer                 // guarded by mu
}

type question struct {
	name string
	kind uint16
}

// questionFor asks for the addresses of a name that are of the family of addr.
func questionFor(name string, addr netip.Addr) question {
	if addr.Is4() {
		return question{name, dns.TypeA}
	}
	return question{name, dns.TypeAAAA}
}

type answer struct {
	addrs []netip.Addr
	rcode int
	until time.Time
}

func newResolver(r *Relay) *resolver {
	return &resolver{
		relay: r, queries: rate.NewLimiter(queriesPerSec, queryBurst), asked: rate.NewLimiter(askedPerSec, askedBurst),
		asking: make(chan struct{}, maxAsked), pins: make(map[netip.Addr]map[string]time.Time), cache: make(map[question]answer),
	}
}

// serve answers datagrams until ctx is done. It takes no more of them than it may
// answer: what comes faster the kernel drops.
func (r *resolver) serve(ctx context.Context, queries *net.UDPConn) {
	workers := make(chan struct{}, maxWorkers)
	buf := make([]byte, dns.MaxMsgSize)
	for r.queries.Wait(ctx) == nil {
		n, client, err := dns.ReadFromSessionUDP(queries, buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		r.relay.count(r.relay.sending, n)
		query := new(dns.Msg)
		if err != nil || query.Unpack(buf[:n]) != nil {
			continue
		}
		select {
		case workers <- struct{}{}:
		case <-ctx.Done():
			return
		}
		r.relay.serving.Go(func() {
			defer func() { <-workers }()
			reply := r.reply(ctx, query)
			reply.Truncate(sizeFor(query))
			if packed, err := reply.Pack(); err == nil {
				r.relay.count(r.relay.receiving, len(packed))
				_, _ = dns.WriteToSessionUDP(queries, packed, client) // whoever does not get it asks again
			}
		})
	}
}

// sizeFor is how large a datagram the client takes.
func sizeFor(query *dns.Msg) int {
	if opt := query.IsEdns0(); opt != nil {
		return int(max(opt.UDPSize(), dns.MinMsgSize))
	}
	return dns.MinMsgSize
}

// serveStream answers the queries of one connection.
func (r *resolver) serveStream(ctx context.Context, client net.Conn) {
	conn := &dns.Conn{Conn: client}
	for ctx.Err() == nil {
		if err := client.SetDeadline(time.Now().Add(streamIdle)); err != nil {
			return
		}
		query, err := conn.ReadMsg()
		if err != nil || r.queries.Wait(ctx) != nil {
			return
		}
		reply := r.reply(ctx, query)
		r.relay.count(r.relay.sending, query.Len())
		r.relay.count(r.relay.receiving, reply.Len())
		if err := conn.WriteMsg(reply); err != nil {
			return
		}
	}
}

// reply answers a query.
func (r *resolver) reply(ctx context.Context, query *dns.Msg) *dns.Msg {
	reply := new(dns.Msg)
	reply.SetReply(query)
	reply.RecursionAvailable = true
	if query.Response || query.Opcode != dns.OpcodeQuery || len(query.Question) != 1 || query.Question[0].Qclass != dns.ClassINET {
		reply.Rcode = dns.RcodeNotImplemented
		return reply
	}
	r.relay.counters.queries.Add(1)
	asked := query.Question[0]
	name, err := network.NormalName(asked.Name)
	verdict, entry := network.Verdict{Why: "it is no host name"}, ""
	if err == nil {
		verdict = r.relay.Rules().Resolve(name)
	}
	if limit := r.relay.spent(); limit != "" {
		r.relay.counters.hit(limit)
		verdict = network.Verdict{Why: limit.why()}
	} else if err == nil && !verdict.Allowed {
		entry = r.relay.Rules().Remedy(network.Attempt{Name: name})
	}
	if !verdict.Allowed {
		r.relay.record(Event{Op: OpResolve, Name: printable(asked.Name), Why: verdict.Why, Entry: entry})
		reply.Rcode = dns.RcodeNameError
		return reply
	}
	switch asked.Qtype {
	case dns.TypeA, dns.TypeAAAA:
		r.address(ctx, reply, name)
	case dns.TypeHTTPS, dns.TypeSVCB, dns.TypeANY, dns.TypeAXFR, dns.TypeIXFR:
		// None: they lead to addresses and keys that nobody looked at.
	case dns.TypePTR:
		reply.Rcode = dns.RcodeNameError // names of the host's own network are nobody's business
	default:
		if r.relay.Rules().Mode() != network.Allow {
			r.forward(ctx, reply, name)
		}
	}
	return reply
}

// printable is a name as it may stand in a log.
func printable(name string) string {
	name = strings.TrimSuffix(name, ".")
	return strings.Map(func(c rune) rune {
		if c <= ' ' || c > '~' {
			return '?'
		}
		return c
	}, name[:min(len(name), 253)])
}

// address answers with the addresses of a name, which are pinned to it.
func (r *resolver) address(ctx context.Context, reply *dns.Msg, name string) {
	asked := reply.Question[0]
	found := r.lookUp(ctx, question{name, asked.Qtype})
	reply.Rcode = found.rcode
	ttl := uint32(max(time.Until(found.until), time.Second) / time.Second)
	for _, addr := range found.addrs {
		header := dns.RR_Header{Name: asked.Name, Rrtype: asked.Qtype, Class: dns.ClassINET, Ttl: ttl}
		if addr.Is4() {
			reply.Answer = append(reply.Answer, &dns.A{Hdr: header, A: addr.AsSlice()})
		} else {
			reply.Answer = append(reply.Answer, &dns.AAAA{Hdr: header, AAAA: addr.AsSlice()})
		}
	}
}

// lookUp finds the addresses of an allowed name.
func (r *resolver) lookUp(ctx context.Context, q question) answer {
	now := time.Now()
	r.mu.Lock()
	known, ok := r.cache[q]
	if ok && now.Before(known.until) {
		r.pin(q.name, known.addrs, known.until)
		r.mu.Unlock()
		return known
	}
	r.mu.Unlock()
	query := new(dns.Msg)
	query.SetQuestion(dns.Fqdn(q.name), q.kind)
	response, err := r.ask(ctx, query)
	if err != nil {
		r.relay.record(Event{Op: OpResolve, Name: q.name, Allowed: true, Why: "not resolved: " + plainError(err)})
		return answer{rcode: dns.RcodeServerFailure}
	}
	found := r.judge(q, response, now)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.cache) >= maxCached {
		clear(r.cache)
	}
	r.cache[q] = found
	r.pin(q.name, found.addrs, found.until)
	return found
}

// judge takes from a response the addresses that a name may lead to.
func (r *resolver) judge(q question, response *dns.Msg, now time.Time) answer {
	found := answer{rcode: response.Rcode, until: now.Add(minTTL)}
	rules := r.relay.Rules()
	ttl := maxTTL
	var dropped netip.Addr
	for _, record := range response.Answer {
		var addr netip.Addr
		switch rr := record.(type) {
		case *dns.A:
			addr, _ = netip.AddrFromSlice(rr.A.To4())
		case *dns.AAAA:
			addr, _ = netip.AddrFromSlice(rr.AAAA)
		}
		if !addr.IsValid() || record.Header().Rrtype != q.kind || len(found.addrs) == maxAnswers {
			continue
		}
		if !rules.Answer(addr) {
			dropped = addr
			continue
		}
		found.addrs = append(found.addrs, addr)
		ttl = min(ttl, time.Duration(record.Header().Ttl)*time.Second)
	}
	if dropped.IsValid() {
		entry := rules.Remedy(network.Attempt{Name: q.name, Addr: dropped})
		r.relay.record(Event{Op: OpResolve, Name: q.name, Addr: dropped, Why: rules.WhyNoAnswer(dropped), Entry: entry})
	}
	if len(found.addrs) > 0 {
		found.until = now.Add(max(ttl, minTTL))
	}
	return found
}

// forward passes on the answer to a query for something that is no address.
func (r *resolver) forward(ctx context.Context, reply *dns.Msg, name string) {
	query := new(dns.Msg)
	query.SetQuestion(dns.Fqdn(name), reply.Question[0].Qtype)
	response, err := r.ask(ctx, query)
	if err != nil {
		reply.Rcode = dns.RcodeServerFailure
		return
	}
	reply.Rcode = response.Rcode
	reply.Answer = slices.Clone(response.Answer)
}

var errBusy = errors.New("too many queries")

// ask asks the upstream.
func (r *resolver) ask(ctx context.Context, query *dns.Msg) (*dns.Msg, error) {
	if !r.asked.Allow() {
		r.relay.counters.hit(LimitQueries)
		return nil, errBusy
	}
	select {
	case r.asking <- struct{}{}:
		defer func() { <-r.asking }()
	default:
		r.relay.counters.hit(LimitQueries)
		return nil, errBusy
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	return r.relay.opts.Names.Exchange(ctx, query)
}

// pin remembers that addresses stand for a name. The caller holds mu.
func (r *resolver) pin(name string, addrs []netip.Addr, until time.Time) {
	until = until.Add(pinGrace)
	for _, addr := range addrs {
		names := r.pins[addr]
		if names == nil {
			if len(r.pins) >= maxPinned {
				r.dropPins()
			}
			names = make(map[string]time.Time)
			r.pins[addr] = names
		}
		if _, known := names[name]; !known && len(names) >= maxNames {
			dropName(names)
		}
		names[name] = until
	}
}

// dropName makes room for another name: of those that are over, else of the one that
// is over first.
func dropName(names map[string]time.Time) {
	now, first := time.Now(), ""
	for name, until := range names {
		if now.After(until) {
			delete(names, name)
		} else if first == "" || until.Before(names[first]) {
			first = name
		}
	}
	if len(names) >= maxNames {
		delete(names, first)
	}
}

// dropPins makes room: first of what is over, else of all. The caller holds mu.
func (r *resolver) dropPins() {
	now := time.Now()
	for addr, names := range r.pins {
		for name, until := range names {
			if now.After(until) {
				delete(names, name)
			}
		}
		if len(names) == 0 {
			delete(r.pins, addr)
		}
	}
	if len(r.pins) >= maxPinned {
		clear(r.pins)
	}
}

// namesOf are the names that an address stands for now, sorted.
func (r *resolver) namesOf(addr netip.Addr) []string {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for name, until := range r.pins[addr] {
		if now.Before(until) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// forget has every name be looked up again. Pins stay: clients keep what they were
// answered, and rules decide about it.
func (r *resolver) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.cache)
}

// plainError says what went wrong without addresses of the host's own.
func plainError(err error) string {
	var dnsError *net.DNSError
	timeout, isTimeoutError := err.(interface{ Timeout() bool })
	switch {
	case errors.Is(err, errBusy):
		return errBusy.Error()
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no route"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), isTimeoutError && timeout.Timeout():
		return "no answer in time"
	case errors.Is(err, net.ErrClosed), errors.Is(err, context.Canceled):
		return "the connection was cut"
	case errors.As(err, &dnsError):
		return "its name cannot be resolved"
	}
	return "the connection failed"
}
