package events

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// ErrClosed is of a subscription whose hub has closed.
var ErrClosed = errors.New("the event stream ends: the daemon is stopping")

// batch is how many events Next returns at most, and looks at while nobody can publish.
const (
	batch = 256
	scan  = 1024
)

// Filter chooses events. Its zero value chooses those of nobody.
type Filter struct {
	EveryOwner bool   // of all owners
	Owner      string // else of this one
	Daemon     bool   // also those of the daemon
	Closed     bool   // of others nothing that runs in their sessions
	Own        string // whose is not of others
	Kinds      []Kind // none are all that the subscriber may see
	Session    string // only those about one session; "" is no matter
}

// Rights are what a subscriber may see at all.
type Rights struct {
	Owner      string // what is of this owner
	EveryOwner bool   // and of all others
	Closed     bool   // but for what runs in their sessions
	Daemon     bool   // and what is the daemon's
}

// Request chooses from what a subscriber may see. Its zero value chooses all, from
// now on.
type Request struct {
	After   string // the id of the last event that the subscriber has
	Kinds   []Kind // none are all
	Session string // only those about this one, whom the subscriber may see
	Owner   string // only those of this owner
}

// SubscribeFor is Subscribe of what rights allow. It refuses what they do not.
func (h *Hub) SubscribeFor(r Rights, req Request) (*Subscription, error) {
	if h == nil {
		return nil, errdefs.New(errdefs.Unimplemented, "this daemon has no event stream")
	}
	if req.Owner != "" && req.Owner != r.Owner && !r.EveryOwner {
		return nil, refusal("owner", "must be left out: only keys of users with the role admin see what others have")
	}
	for _, k := range req.Kinds {
		if k.OfDaemon() && !r.Daemon {
			return nil, refusal("types", "must not have "+string(k)+": only an admin's key sees what is the daemon's")
		}
	}
	return h.Subscribe(Filter{
		EveryOwner: r.EveryOwner && req.Owner == "", Owner: cmp.Or(req.Owner, r.Owner), Daemon: r.Daemon && req.Owner == "",
		Kinds: req.Kinds, Session: req.Session, Closed: r.Closed, Own: r.Owner,
	}, req.After)
}

func refusal(field, message string) error {
	return &errdefs.Error{Code: errdefs.PermissionDenied, Field: field, Message: field + " " + message}
}

// Sees reports whether the filter lets a kind through at all.
func (f *Filter) Sees(k Kind) bool {
	if k.OfDaemon() && !f.Daemon || f.Session != "" && !k.ofSession() {
		return false
	}
	if len(f.Kinds) == 0 {
		return true
	}
	for _, kind := range f.Kinds {
		if kind == k {
			return true
		}
	}
	return false
}

// chooses reports whether an event is for the subscriber.
func (f *Filter) chooses(e *Event) bool {
	kind := e.Type.Kind()
	if !f.Sees(kind) || f.Session != "" && e.Session != f.Session {
		return false
	}
	if f.Closed && kind.inside() && e.Owner != f.Own {
		return false
	}
	return kind.OfDaemon() || f.EveryOwner || e.Owner == f.Owner
}

// kinds are those that the filter lets through.
func (f *Filter) kinds() []Kind {
	var seen []Kind
	for _, k := range Kinds {
		if f.Sees(k) {
			seen = append(seen, k)
		}
	}
	return seen
}

// Reason says why there is a gap. The strings are part of the API.
type Reason string

// The reasons.
const (
	Restarted Reason = "restarted" // the daemon, since the event that the subscriber had last
	Expired   Reason = "expired"   // that event is older than what is kept
	Slow      Reason = "slow"      // the subscriber reads more slowly than events come
)

// Reasons are all reasons.
var Reasons = []Reason{Restarted, Expired, Slow}

// Gap stands for events that the subscriber may have missed.
type Gap struct {
	Reason Reason
	Reload []Kind // what it may have missed
	ID     string // of the place behind the gap
}

// Batch is what has happened since the last one.
type Batch struct {
	Gap    *Gap // before Events; nil if nothing is missing
	Events []*Stored
	ID     string // of the place behind the batch, to resume from
}

// Subscription reads events, for one goroutine.
type Subscription struct {
	hub    *Hub
	filter Filter
	after  string // what the subscriber has
	at     uint64
	reason Reason // of a gap to tell; "" is none
}

// Subscribe returns a subscription of what happens behind the event called after, or
// from now on if that is empty. The caller closes it.
func (h *Hub) Subscribe(f Filter, after string) (*Subscription, error) {
	s := &Subscription{hub: h, filter: f, after: after}
	h.mu.Lock()
	defer h.mu.Unlock()
	s.at = h.nextPlace()
	if after != "" {
		place, ours, err := h.place(after)
		switch {
		case err != nil:
			return nil, err
		case !ours || place > s.at:
			s.reason = Restarted
		case place < h.dropped:
			s.reason = Expired
		default:
			s.at = place
		}
	}
	h.streams++
	return s, nil
}

// Close ends the subscription.
func (s *Subscription) Close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.hub.streams--
}

// ID is of the place where the subscription is. While there is a gap to tell that is in
// front of the gap: who resumes from there is told of it.
func (s *Subscription) ID() string {
	if s.reason != "" {
		return s.after
	}
	return s.hub.id(s.at)
}

// IDOf is the id of an event that the subscription returned.
func (s *Subscription) IDOf(e *Stored) string { return s.hub.id(e.place) }

// Next returns what has happened. After patience it returns an empty batch, whose ID
// has moved on. Its error is that of ctx, or ErrClosed.
func (s *Subscription) Next(ctx context.Context, patience time.Duration) (Batch, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		b, changed := s.read()
		if b.Gap != nil || len(b.Events) > 0 {
			return b, nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return b, nil
		case <-ctx.Done():
			return b, ctx.Err()
		case <-s.hub.closed:
			return b, ErrClosed
		}
	}
}

// closedChannel is for who need not wait.
var closedChannel = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// read returns what is there, and a channel that is closed when there may be more.
func (s *Subscription) read() (b Batch, changed <-chan struct{}) {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.reason == "" && s.at < h.dropped {
		s.reason = Slow
		s.at = h.nextPlace() // what is left is older than what a reload has
	}
	if s.reason != "" {
		b.Gap = &Gap{Reason: s.reason, Reload: s.filter.kinds(), ID: h.id(s.at)}
		h.metrics.gap(s.reason)
		s.reason = ""
	}
	for i, seen := h.find(s.at), 0; i < h.count; i++ {
		if seen == scan || len(b.Events) == batch {
			b.ID = h.id(s.at)
			return b, closedChannel
		}
		e := h.ring[(h.first+i)%len(h.ring)]
		if !e.forgotten && s.filter.chooses(&e.Event) {
			b.Events = append(b.Events, e)
		}
		s.at = e.place
		seen++
	}
	if s.at < h.last || h.count == 0 {
		s.at = max(s.at, h.nextPlace())
	}
	if h.changed == nil {
		h.changed = make(chan struct{})
	}
	b.ID = h.id(s.at)
	return b, h.changed
}
