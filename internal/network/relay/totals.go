package relay

import (
	"maps"
	"sync/atomic"
)

// Totals are what a relay has carried and refused until now.
type Totals struct {
	Connections int // open now, flows of UDP among them

	Opened, Refused         uint64 // connections, flows and, of the refused, requests
	Sent, Received          int64  // bytes, as the sandbox sees it, queries and their answers among them
	Queries, QueriesRefused uint64
	LimitHits               map[Limit]uint64 // how often each limit refused something; without those that never did
}

// counters are those of Totals that nothing else counts.
type counters struct {
	opened, refused, queries, queriesRefused atomic.Uint64

	hits map[Limit]*atomic.Uint64 // by all limits; does not change
}

func newCounters() *counters {
	hits := make(map[Limit]*atomic.Uint64)
	for _, limit := range []Limit{LimitConnections, LimitNew, LimitBytes, LimitFlows, LimitRequests, LimitQueries, LimitQuota} {
		hits[limit] = new(atomic.Uint64)
	}
	return &counters{hits: hits}
}

// hit counts what a limit refuses.
func (c *counters) hit(limit Limit) {
	if n := c.hits[limit]; n != nil {
		n.Add(1)
	}
}

// Totals returns the totals.
func (r *Relay) Totals() Totals {
	c := r.counters
	t := Totals{
		Connections: r.Connections(), Opened: c.opened.Load(), Refused: c.refused.Load(),
		Sent: r.sending.bytes.Load(), Received: r.receiving.bytes.Load(),
		Queries: c.queries.Load(), QueriesRefused: c.queriesRefused.Load(), LimitHits: make(map[Limit]uint64),
	}
	for limit, n := range c.hits {
		t.LimitHits[limit] = n.Load()
	}
	maps.DeleteFunc(t.LimitHits, func(_ Limit, n uint64) bool { return n == 0 })
	return t
}

// record counts an event if it is a refusal, and keeps it.
func (r *Relay) record(e Event) {
	switch {
	case e.Allowed || e.Op == OpCut || e.Op == OpClose:
	case e.Op == OpResolve:
		r.counters.queriesRefused.Add(1)
	default:
		r.counters.refused.Add(1)
	}
	if kept := r.journal.add(e); kept.Seq > 0 && r.opts.Decided != nil {
		r.opts.Decided(kept)
	}
}
