// Package events tells subscribers what happens in the daemon, as it happens. A Hub
// keeps the last events, bounded in number and bytes; a subscriber is a place in them.
// So publishing costs the same however many subscribers there are and never waits for
// one: who falls too far behind gets a Gap instead of what is gone.
//
// The package knows kinds, owners and places. What an event says is its publisher's,
// how it is written a surface's, and who may see whose the session core's.
package events

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

const (
	// DefaultBacklog is how many events are kept.
	DefaultBacklog = 4096
	// DefaultBacklogBytes is how much memory they may take.
	DefaultBacklogBytes = 8 << 20

	// fixedBytes is what an event takes beside its Size: with its place and, once somebody has
	// read it, its text.
	fixedBytes = 1024
)

// Options configures a Hub. Every zero value takes its default.
type Options struct {
	Backlog      int // DefaultBacklog
	BacklogBytes int // DefaultBacklogBytes
}

// Hub takes events from publishers and has them for subscribers. A nil Hub takes
// them too, and has none. Its methods may be called concurrently.
type Hub struct {
	start   time.Time
	epoch   string // begins the ids of this hub's events
	metrics metrics
	bursts  bursts

	mu      sync.Mutex
	ring    []*Stored      // guarded by mu; the oldest at first
	first   int            // guarded by mu
	count   int            // guarded by mu
	bytes   int            // guarded by mu
	most    int            // bytes
	last    uint64         // guarded by mu; the place of the newest event, or of a subscriber without one
	dropped uint64         // guarded by mu; the place of the newest event that is not kept any more
	gone    map[string]int // guarded by mu; how many places sessions of forgotten owners have in the ring
	changed chan struct{}  // guarded by mu; closed at the next event; nil if nobody waits
	streams int            // guarded by mu
	closed  chan struct{}  // closed by Close
	once    sync.Once
}

// Stored is an event in its place.
type Stored struct {
	Event
	place     uint64
	forgotten bool // nobody sees it: it only keeps its place, and the id of its session

	once sync.Once
	text []byte
	err  error
}

// Text is the event as encode writes it, which is called once, however many
// subscribers ask.
func (s *Stored) Text(encode func(*Event) ([]byte, error)) ([]byte, error) {
	s.once.Do(func() { s.text, s.err = encode(&s.Event) })
	return s.text, s.err
}

// NewHub returns a hub without events.
func NewHub(o Options) *Hub {
	if o.Backlog <= 0 {
		o.Backlog = DefaultBacklog
	}
	if o.BacklogBytes <= 0 {
		o.BacklogBytes = DefaultBacklogBytes
	}
	start := time.Now()
	h := &Hub{
		start: start, epoch: strconv.FormatInt(start.UnixMicro(), 36), metrics: newMetrics(),
		ring: make([]*Stored, o.Backlog), most: o.BacklogBytes, gone: make(map[string]int), closed: make(chan struct{}),
	}
	h.bursts.publish = h.publish
	return h
}

// Close ends all subscriptions.
func (h *Hub) Close() {
	if h != nil {
		h.once.Do(func() { close(h.closed) })
	}
}

// Publish makes an event known. It never waits for a subscriber. Execs and decisions
// of a session's network that come too fast are counted, and told together.
func (h *Hub) Publish(e Event) {
	if h == nil {
		return
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	if kind := e.Type.Kind(); (kind == Exec || kind == Network) && !h.bursts.admit(e) {
		return
	}
	h.publish(e)
}

func (h *Hub) publish(e Event) {
	stored := &Stored{Event: e}
	h.mu.Lock()
	if h.gone[e.Session] > 0 && e.Type.Kind().ofSession() {
		h.mu.Unlock()
		return
	}
	stored.place = h.nextPlace()
	for h.count == len(h.ring) || h.count > 0 && h.bytes+stored.bytes() > h.most {
		h.drop()
	}
	h.ring[(h.first+h.count)%len(h.ring)] = stored
	h.count++
	h.bytes += stored.bytes()
	if h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
	h.mu.Unlock()
	h.metrics.count(e.Type.Kind())
}

func (s *Stored) bytes() int { return fixedBytes + 2*s.Size } // its data and its text

// drop forgets the oldest event. The caller holds mu.
func (h *Hub) drop() {
	oldest := h.ring[h.first]
	h.ring[h.first] = nil
	h.first = (h.first + 1) % len(h.ring)
	h.count--
	h.bytes -= oldest.bytes()
	h.dropped = oldest.place
	if oldest.forgotten && oldest.Session != "" {
		if h.gone[oldest.Session]--; h.gone[oldest.Session] == 0 {
			delete(h.gone, oldest.Session)
		}
	}
}

// ForgetOwner has nobody see what is kept of an owner, whose sessions have all ended: the
// next one of that name is somebody else. Nor is anything told any more of the sessions
// that events told the end of, by who is slow to say it.
func (h *Hub) ForgetOwner(owner string) {
	if h == nil || owner == "" { // what is nobody's is the daemon's
		return
	}
	h.bursts.forget(owner) // first: what it has told meanwhile is in the ring
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.count {
		h.forget((h.first+i)%len(h.ring), owner)
	}
}

// forget replaces the event at an index of the ring if it is owner's. Those who read it
// now keep theirs. The caller holds mu.
func (h *Hub) forget(i int, owner string) {
	e := h.ring[i]
	if e.forgotten || e.Owner != owner {
		return
	}
	left := &Stored{place: e.place, forgotten: true}
	if e.Type.Kind() == Session { // others may name a session of somebody else
		left.Session = e.Session
		h.gone[e.Session]++
	}
	h.ring[i] = left
	h.bytes += left.bytes() - e.bytes()
}

// nextPlace is a place behind all others. Places are microseconds and no counts, so
// that their distance does not tell a subscriber how much others do. The caller holds mu.
func (h *Hub) nextPlace() uint64 {
	h.last = max(h.last+1, uint64(time.Since(h.start).Microseconds()))
	return h.last
}

// find is the index, from the oldest, of the first event behind a place. The caller
// holds mu.
func (h *Hub) find(place uint64) int {
	low, high := 0, h.count
	for low < high {
		middle := (low + high) / 2
		if h.ring[(h.first+middle)%len(h.ring)].place > place {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low
}

// id is a place as subscribers have it.
func (h *Hub) id(place uint64) string { return h.epoch + "-" + strconv.FormatUint(place, 10) }

// place is the reverse of id. It reports false for an id of another hub.
func (h *Hub) place(id string) (place uint64, ours bool, err error) {
	epoch, number, ok := strings.Cut(id, "-")
	place, parseErr := strconv.ParseUint(number, 10, 64)
	_, epochErr := strconv.ParseUint(epoch, 36, 64)
	if !ok || epochErr != nil || parseErr != nil {
		return 0, false, errdefs.Invalid("since", "must be the id of an event of this stream, which is also what Last-Event-ID takes; leave it out to begin now")
	}
	return place, epoch == h.epoch, nil
}
