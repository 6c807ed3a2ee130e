package relay

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/network"
)

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestFollowersSeeRepeatedRefusals(t *testing.T) {
	t.Parallel()
	var j Journal
	refusal := Event{Op: OpResolve, Name: "evil.test", Why: "mode none"}
	j.add(refusal)
	events, changed, ended := j.Since(0)
	if len(events) != 1 || events[0].Seq != 1 || isClosed(changed) || ended {
		t.Fatalf("%+v, %t", events, ended)
	}
	j.add(refusal)
	if !isClosed(changed) {
		t.Error("the follower is not woken")
	}
	events, _, _ = j.Since(1)
	if len(events) != 1 || events[0].Count != 2 || events[0].Seq != 2 {
		t.Errorf("%+v", events)
	}
	j.add(Event{Op: OpConnect, Allowed: true})
	if events, _, _ = j.Since(2); len(events) != 1 || events[0].Seq != 3 || j.LastSeq() != 3 {
		t.Errorf("%+v", events)
	}
}

func TestJournalEnds(t *testing.T) {
	t.Parallel()
	var j Journal
	j.add(Event{Op: OpConnect, Allowed: true})
	_, changed, _ := j.Since(1)
	j.Close()
	if !isClosed(changed) {
		t.Error("the follower is not woken")
	}
	events, changed, ended := j.Since(0)
	if len(events) != 1 || !ended || !isClosed(changed) {
		t.Errorf("%+v, %t", events, ended)
	}
}

// Whoever followed an earlier relay goes on behind what it saw, or begins again.
func TestNumbersOfAnotherJournal(t *testing.T) {
	t.Parallel()
	rules, err := network.Compile(network.Policy{}, network.Operator{})
	if err != nil {
		t.Fatal(err)
	}
	r := New(Entrance{}, rules, Options{FirstSeq: 7})
	if events, _, _ := r.Journal().Since(7); len(events) != 0 || r.Journal().LastSeq() != 7 {
		t.Errorf("%+v", events)
	}
	r.journal.add(Event{Op: OpConnect, Allowed: true})
	for since, want := range map[uint64]int{7: 1, 8: 0, 9: 1, 1000: 1} {
		if events, _, _ := r.Journal().Since(since); len(events) != want || want == 1 && events[0].Seq != 8 {
			t.Errorf("since %d: %+v", since, events)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Run(ctx); err != nil {
		t.Error(err)
	}
	if _, _, ended := r.Journal().Since(0); !ended {
		t.Error("the journal does not end with the relay")
	}
}

func TestDeniedIsNewestFirstWithoutRepeats(t *testing.T) {
	t.Parallel()
	var j Journal
	addr := netip.MustParseAddr("198.51.100.1")
	j.add(Event{Op: OpResolve, Name: "old.test"})
	time.Sleep(time.Millisecond)
	since := time.Now()
	for _, e := range []Event{
		{Op: OpResolve, Name: "a.test"},
		{Op: OpResolve, Name: "b.test"},
		{Op: OpResolve, Name: "good.test", Allowed: true},
		{Op: OpConnect, Name: "c.test", Addr: addr, Port: 443},
		{Op: OpConnect, Name: "c.test", Addr: addr, Port: 80},
		{Op: OpResolve, Name: "a.test", Why: "again"},
	} {
		j.add(e)
	}
	var got string
	for _, e := range j.Denied(since, 10) {
		got += fmt.Sprintf("%s:%d%s ", e.Name, e.Port, e.Why)
	}
	if want := "a.test:0again c.test:80 c.test:443 b.test:0 "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if found := j.Denied(since, 2); len(found) != 2 {
		t.Errorf("%+v", found)
	}
}
