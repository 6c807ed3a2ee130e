package events_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/events"
)

// all chooses everything.
var all = events.Filter{EveryOwner: true, Daemon: true}

func subscribe(t *testing.T, h *events.Hub, f events.Filter, after string) *events.Subscription {
	t.Helper()
	s, err := h.Subscribe(f, after)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// next returns what comes next, and fails if nothing does.
func next(t *testing.T, s *events.Subscription) events.Batch {
	t.Helper()
	b, err := s.Next(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// nothing fails if something is there.
func nothing(t *testing.T, s *events.Subscription) {
	t.Helper()
	if b, err := s.Next(t.Context(), time.Millisecond); err != nil || b.Gap != nil || len(b.Events) > 0 {
		t.Errorf("got %d events, gap %+v, %v; want nothing", len(b.Events), b.Gap, err)
	}
}

func of(owner, session string, kind events.Type) events.Event {
	return events.Event{Type: kind, Owner: owner, Session: session}
}

func sessionsOf(b events.Batch) string {
	var ids []string
	for _, e := range b.Events {
		ids = append(ids, e.Session)
	}
	return strings.Join(ids, " ")
}

func TestSubscribersSeeWhatTheirFilterChooses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		filter events.Filter
		want   string
	}{
		{"nobody's", events.Filter{}, ""},
		{"an owner", events.Filter{Owner: "alice"}, "a1 a1 a2"},
		{"every owner", events.Filter{EveryOwner: true}, "a1 a1 a2 b1"},
		{"the daemon too", all, "a1 a1 a2 b1 pool"},
		{"kinds", events.Filter{EveryOwner: true, Daemon: true, Kinds: []events.Kind{events.Exec, events.Pool}}, "a1 pool"},
		{"a kind of the daemon without the right", events.Filter{EveryOwner: true, Kinds: []events.Kind{events.Pool}}, ""},
		{"a session", events.Filter{EveryOwner: true, Daemon: true, Session: "a1"}, "a1 a1"},
		{"another's insides are closed", events.Filter{EveryOwner: true, Closed: true, Own: "bob"}, "a1 a2 b1"},
		{"the own are open", events.Filter{EveryOwner: true, Closed: true, Own: "alice"}, "a1 a1 a2 b1"},
		{"another's alone are closed", events.Filter{Owner: "alice", Closed: true, Own: "bob"}, "a1 a2"},
		{"another's session", events.Filter{Owner: "bob", Session: "a1"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := events.NewHub(events.Options{})
			s := subscribe(t, h, tt.filter, "")
			h.Publish(of("alice", "a1", events.SessionCreated))
			h.Publish(of("alice", "a1", events.ExecStarted))
			h.Publish(of("alice", "a2", events.SessionState))
			h.Publish(of("bob", "b1", events.SessionCreated))
			h.Publish(of("", "pool", events.PoolChanged))
			if tt.want == "" {
				nothing(t, s)
				return
			}
			if got := sessionsOf(next(t, s)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			nothing(t, s)
		})
	}
}

func TestResumesBehindAnID(t *testing.T) {
	t.Parallel()
	h := events.NewHub(events.Options{})
	first := subscribe(t, h, all, "")
	ready := first.ID()
	for i := range 5 {
		h.Publish(of("alice", fmt.Sprint(i), events.SessionCreated))
	}
	b := next(t, first)
	if got := sessionsOf(next(t, subscribe(t, h, all, ready))); got != "0 1 2 3 4" {
		t.Errorf("from its beginning a stream goes on with %q", got)
	}
	if got := sessionsOf(next(t, subscribe(t, h, all, first.IDOf(b.Events[2])))); got != "3 4" {
		t.Errorf("behind the third event a stream goes on with %q", got)
	}
	nothing(t, subscribe(t, h, all, b.ID))
	nothing(t, subscribe(t, h, all, first.IDOf(b.Events[4])))
}

func TestAQuietSubscriberMovesOn(t *testing.T) {
	t.Parallel()
	h := events.NewHub(events.Options{Backlog: 4})
	s := subscribe(t, h, events.Filter{Owner: "bob"}, "")
	for range 3 {
		for range 4 {
			h.Publish(of("alice", "a", events.SessionState))
		}
		nothing(t, s)
	}
	b, err := s.Next(t.Context(), time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	nothing(t, subscribe(t, h, events.Filter{Owner: "bob"}, b.ID)) // no gap
}

func TestGapsSayWhatIsMissing(t *testing.T) {
	t.Parallel()
	h := events.NewHub(events.Options{Backlog: 4})
	early, slow := subscribe(t, h, all, "").ID(), subscribe(t, h, events.Filter{Owner: "alice", Kinds: []events.Kind{events.Session}}, "")
	for i := range 6 {
		h.Publish(of("alice", fmt.Sprint(i), events.SessionCreated))
	}
	elsewhere := events.NewHub(events.Options{})
	elsewhere.Publish(of("alice", "x", events.SessionCreated))
	earlier := subscribe(t, elsewhere, all, "").ID()
	behind := func(id string) func() *events.Subscription {
		return func() *events.Subscription { return subscribe(t, h, all, id) }
	}
	tests := []struct {
		name string
		s    func() *events.Subscription
		want events.Reason
		kind int
	}{
		{"an old id", behind(early), events.Expired, len(events.Kinds)},
		{"an id of another daemon", behind("1-" + strings.SplitN(earlier, "-", 2)[1]), events.Restarted, len(events.Kinds)},
		{"a reader that fell behind", func() *events.Subscription { return slow }, events.Slow, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := tt.s()
			if tt.want != events.Slow { // a connection may break before the gap is told
				s = subscribe(t, h, all, s.ID())
			}
			b := next(t, s)
			if b.Gap == nil || b.Gap.Reason != tt.want || len(b.Gap.Reload) != tt.kind || len(b.Events) > 0 {
				t.Fatalf("got gap %+v and %d events, want reason %s", b.Gap, len(b.Events), tt.want)
			}
			h.Publish(of("alice", "next", events.SessionCreated))
			if got := sessionsOf(next(t, s)); got != "next" {
				t.Errorf("behind the gap came %q", got)
			}
			again := subscribe(t, h, all, b.Gap.ID)
			if got := sessionsOf(next(t, again)); got != "next" {
				t.Errorf("resumed from the gap came %q", got)
			}
		})
	}
}

func TestRefusesWhatIsNoID(t *testing.T) {
	t.Parallel()
	h := events.NewHub(events.Options{})
	for _, id := range []string{"x", "-", "-1", "a-", "a-b", "a--1", "a-1-2", "\x00-1", "a b-1", "a-99999999999999999999999"} {
		if _, err := h.Subscribe(all, id); !errdefs.Is(err, errdefs.InvalidArgument) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestTheBacklogIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	h := events.NewHub(events.Options{BacklogBytes: 64 << 10})
	start := subscribe(t, h, all, "").ID()
	last := subscribe(t, h, all, "")
	for range 100 {
		h.Publish(events.Event{Type: events.SessionCreated, Size: 4 << 10})
	}
	if b := next(t, subscribe(t, h, all, start)); b.Gap == nil {
		t.Errorf("more is kept than was allowed: %d events", len(b.Events))
	}
	h.Publish(events.Event{Type: events.SessionCreated, Size: 1 << 20, Session: "large"})
	if b := next(t, last); b.Gap == nil || b.Gap.Reason != events.Slow {
		t.Errorf("got %+v", b)
	}
}

// A publisher never waits, whatever subscribers do, and each of them gets all or a gap.
func TestManyPublishersAndSubscribers(t *testing.T) {
	t.Parallel()
	const publishers, each, readers = 4, 500, 8
	h := events.NewHub(events.Options{Backlog: publishers * each})
	var reading sync.WaitGroup
	for range readers {
		s := subscribe(t, h, all, "")
		reading.Go(func() {
			seen := map[string]int{}
			for total := 0; total < publishers*each; {
				b, err := s.Next(t.Context(), time.Minute)
				if err != nil || b.Gap != nil {
					t.Errorf("gap %+v, %v", b.Gap, err)
					return
				}
				for _, e := range b.Events {
					if e.Data != seen[e.Session] {
						t.Errorf("of %s came %v, want %d", e.Session, e.Data, seen[e.Session])
					}
					seen[e.Session]++
				}
				total += len(b.Events)
			}
		})
	}
	for p := range publishers {
		reading.Go(func() {
			for i := range each {
				h.Publish(events.Event{Type: events.SessionState, Session: fmt.Sprint(p), Data: i})
			}
		})
	}
	reading.Wait()
}

// A user who is deleted leaves no events to the next one of that name, nor does what is
// told of the user's sessions afterwards.
func TestAnOwnerIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := events.NewHub(events.Options{BacklogBytes: 1 << 20})
		since := subscribe(t, h, all, "").ID()
		big := of("alice", "a", events.SessionCreated)
		big.Size = 400 << 10
		h.Publish(big)
		h.Publish(of("bob", "b", events.SessionCreated))
		for range events.MostPerSecond + 10 { // of which ten wait to be told
			h.Publish(of("alice", "a", events.ExecStarted))
		}
		h.Publish(of("alice", "b", events.SnapshotCreated)) // of an archive that was bob's
		h.Publish(of("alice", "a", events.SessionEnded))
		h.ForgetOwner("alice")
		h.ForgetOwner("alice")
		h.ForgetOwner("")
		h.Publish(of("alice", "a", events.ExecFinished))
		time.Sleep(2 * time.Second)
		nothing(t, subscribe(t, h, events.Filter{Owner: "alice"}, since))
		if got := sessionsOf(next(t, subscribe(t, h, all, since))); got != "b" {
			t.Errorf("of all that is left %q", got)
		}
		// The new one of the name is told of, and there is room for it without a gap.
		s := subscribe(t, h, events.Filter{Owner: "alice"}, since)
		big.Session = "new"
		h.Publish(big)
		h.Publish(of("bob", "b", events.SessionEnded))
		if b := next(t, s); b.Gap != nil || sessionsOf(b) != "new" {
			t.Errorf("got %q, gap %+v", sessionsOf(b), b.Gap)
		}
		if got := sessionsOf(next(t, subscribe(t, h, all, since))); got != "b new b" {
			t.Errorf("of all there is %q", got)
		}
	})
}

func TestBurstsAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := events.NewHub(events.Options{})
		s := subscribe(t, h, all, "")
		for range 100 {
			h.Publish(of("alice", "a", events.ExecStarted))
			h.Publish(of("alice", "a", events.ExecFinished))
		}
		h.Publish(of("alice", "b", events.ExecStarted)) // another session's
		time.Sleep(2 * time.Second)
		b := next(t, s)
		began, ended := 0, 0
		for _, e := range b.Events[:len(b.Events)-1] {
			if e.Session == "b" {
				continue
			}
			if e.Type == events.ExecStarted {
				began++
			} else {
				ended++
			}
		}
		last := b.Events[len(b.Events)-1]
		more, ok := last.Data.(events.Burst)
		if !ok || last.Type != events.ExecBurst || last.Owner != "alice" || last.Session != "a" {
			t.Fatalf("the last event is %+v", last.Event)
		}
		if began+ended != events.MostPerSecond || began+more.Began != 100 || ended+more.Ended != 100 || len(b.Events) != events.MostPerSecond+2 {
			t.Errorf("%d and %d were told, and %+v together", began, ended, more)
		}
		h.Publish(of("alice", "a", events.ExecStarted))
		if b := next(t, s); len(b.Events) != 1 || b.Events[0].Type != events.ExecStarted {
			t.Errorf("after the burst came %d events", len(b.Events))
		}
		for i := range 60 {
			e := of("alice", "a", events.NetworkDecision)
			e.Denied = i%2 == 0
			h.Publish(e)
		}
		time.Sleep(2 * time.Second)
		b = next(t, s)
		if more, ok := b.Events[len(b.Events)-1].Data.(events.Burst); !ok || more != (events.Burst{Allowed: 10, Denied: 10}) {
			t.Errorf("of decisions came %+v", more)
		}
	})
}

func TestEndsOfSubscriptions(t *testing.T) {
	t.Parallel()
	h := events.NewHub(events.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := subscribe(t, h, all, "")
	if _, err := s.Next(ctx, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	h.Publish(of("alice", "a", events.SessionCreated))
	h.Close()
	if got := sessionsOf(next(t, s)); got != "a" {
		t.Errorf("before the end came %q", got)
	}
	if _, err := s.Next(t.Context(), time.Minute); !errors.Is(err, events.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	var none *events.Hub
	none.Publish(of("alice", "a", events.SessionCreated)) // a nil hub takes events and has none
	none.Close()
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	h := events.NewHub(events.Options{Backlog: 1})
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(h)
	s := subscribe(t, h, all, "")
	h.Publish(of("alice", "a", events.SessionCreated))
	h.Publish(of("alice", "a", events.SessionEnded))
	next(t, s)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, label := range m.GetLabel() {
				name += " " + label.GetValue()
			}
			got[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	for name, want := range map[string]float64{
		"sandkasten_events_streams": 1, "sandkasten_events_gaps_total slow": 1, "sandkasten_events_gaps_total expired": 0,
		"sandkasten_events_published_total session": 2, "sandkasten_events_published_total pool": 0,
	} {
		if value, ok := got[name]; !ok || value != want {
			t.Errorf("%s is %g, want %g", name, value, want)
		}
	}
}

func BenchmarkPublish(b *testing.B) {
	for _, streams := range []int{0, 100} {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) {
			h := events.NewHub(events.Options{})
			var reading sync.WaitGroup
			for range streams {
				s, err := h.Subscribe(all, "")
				if err != nil {
					b.Fatal(err)
				}
				reading.Go(func() {
					defer s.Close()
					for {
						if _, err := s.Next(context.Background(), time.Minute); err != nil {
							return
						}
					}
				})
			}
			e := of("alice", "a", events.SessionState)
			b.ReportAllocs()
			for b.Loop() {
				h.Publish(e)
			}
			h.Close()
			reading.Wait()
		})
	}
}
