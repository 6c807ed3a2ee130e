package relay

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Op says what an event is about. The strings are part of the API.
type Op string

// The events.
const (
	OpResolve   Op = "resolve"   // a name query
	OpConnect   Op = "connect"   // a connection began, or was refused
	OpDatagrams Op = "datagrams" // a flow of UDP began, or was refused
	OpRequest   Op = "request"   // a request of HTTP
	OpClose     Op = "close"     // a connection ended
	OpCut       Op = "cut"       // other rules ended a connection or a flow
)

// Event is one decision.
type Event struct {
	Seq     uint64 // 1 is the first of a sandbox; it grows with Count
	At      time.Time
	Op      Op
	Name    string
	Addr    netip.Addr // invalid for names
	Port    uint16
	Allowed bool
	Why     string // the entry that decided, or what is missing
	Entry   string // of a refusal: what opens it once it is on the list; "" where no entry does
	Count   int    // how often it happened in a row

	Sent, Received int64 // bytes, of OpClose
}

// journalSize is how many events are kept.
const journalSize = 1000

// Journal keeps the last events. Its zero value is empty.
type Journal struct {
	mu      sync.Mutex
	events  []Event       // guarded by mu; the oldest at next when there are journalSize
	next    int           // guarded by mu
	seq     uint64        // guarded by mu
	changed chan struct{} // guarded by mu; closed at the next event; may be nil
	refused *rate.Limiter // guarded by mu; made with the first refusal
	dropped uint64        // guarded by mu
	ended   bool          // guarded by mu
}

// Refusals over this rate are counted and not kept, so that a flood of them does not
// push out what was allowed.
const (
	refusedPerSecond = 10
	refusedBurst     = 200
)

// Dropped is how many refusals were not kept.
func (j *Journal) Dropped() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.dropped
}

// add keeps an event, and returns it as it is kept: without a number if it is not. One
// that is like the last one raises that one's count and number.
func (j *Journal) add(e Event) Event {
	j.mu.Lock()
	defer j.mu.Unlock()
	e.At, e.Count = time.Now(), 1
	if last := j.last(); last != nil && sameEvent(*last, e) {
		j.seq++
		last.Seq, last.At = j.seq, e.At
		last.Count++
		j.wake()
		return *last
	}
	if !e.Allowed {
		if j.refused == nil {
			j.refused = rate.NewLimiter(refusedPerSecond, refusedBurst)
		}
		if !j.refused.Allow() {
			j.dropped++
			return e
		}
	}
	j.seq++
	e.Seq = j.seq
	if len(j.events) < journalSize {
		j.events = append(j.events, e)
	} else {
		j.events[j.next] = e
		j.next = (j.next + 1) % journalSize
	}
	j.wake()
	return e
}

// wake has followers look again. The caller holds mu.
func (j *Journal) wake() {
	if j.changed != nil {
		close(j.changed)
		j.changed = nil
	}
}

// Close tells followers that no more events come.
func (j *Journal) Close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ended = true
	j.wake()
}

// LastSeq is the number of the newest event, or that before the first.
func (j *Journal) LastSeq() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.seq
}

// last is the newest event. The caller holds mu.
func (j *Journal) last() *Event {
	if len(j.events) == 0 {
		return nil
	}
	return &j.events[(j.next+len(j.events)-1)%len(j.events)]
}

// sameEvent compares what happens over and over: refusals.
func sameEvent(a, b Event) bool {
	return !a.Allowed && !b.Allowed && a.Op == b.Op && a.Name == b.Name && a.Addr == b.Addr && a.Port == b.Port && a.Why == b.Why
}

// Since returns the events behind the one numbered seq, oldest first, a channel that
// is closed when there are others, and whether none will come any more. A number that
// no event has had yet is of another journal: it counts as 0.
func (j *Journal) Since(seq uint64) (events []Event, changed <-chan struct{}, ended bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if seq > j.seq {
		seq = 0
	}
	for i := range j.events {
		if e := j.events[(j.next+i)%len(j.events)]; e.Seq > seq {
			events = append(events, e)
		}
	}
	if j.changed == nil {
		j.changed = make(chan struct{})
	}
	changed = j.changed
	if j.ended {
		j.wake() // nobody waits in vain
	}
	return events, changed, j.ended
}

// Denied returns at most that many refusals since a time, the newest first, and of
// those of one name, address and port the newest only.
func (j *Journal) Denied(since time.Time, most int) []Event {
	j.mu.Lock()
	defer j.mu.Unlock()
	type target struct {
		name string
		addr netip.Addr
		port uint16
	}
	seen := make(map[target]bool)
	var found []Event
	for i := len(j.events) - 1; i >= 0 && len(found) < most; i-- {
		e := j.events[(j.next+i)%len(j.events)]
		if e.At.Before(since) {
			break
		}
		at := target{e.Name, e.Addr, e.Port}
		if e.Allowed || seen[at] {
			continue
		}
		seen[at] = true
		found = append(found, e)
	}
	return found
}
