package runtimetest

import (
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/protocol"
)

// pause stops a program and its forks between two breaths, keeps the runner
// answering, survives a new driver, and does not hinder Destroy.
func (s *suite) pause(t *testing.T) {
	d := s.open(t)
	b := s.create(t, d, s.spec())
	b.run(t, `(while :; do (: ); echo x >>ticks; done) >/dev/null 2>&1 &`)
	ticks := func() int64 {
		t.Helper()
		stat, content, err := b.client.Read(t.Context(), protocol.Read{Path: "ticks"})
		if err != nil {
			return 0 // it has not begun
		}
		if err := content.Close(); err != nil {
			t.Error(err)
		}
		return stat.Size
	}
	eventually(t, "the program begins", func() bool { return ticks() > 0 })

	p := pauser(t, b)
	for range 2 { // a second time changes nothing
		if err := p.Pause(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	still := ticks()
	before, err := b.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // what must not happen has no event
	if now := ticks(); now != still {
		t.Errorf("%d bytes were written while it was paused", now-still)
	}
	// The last of them counts as stopped just before it is off the processor.
	if after, err := b.Stats(t.Context()); err != nil || after.CPUUsageUsec-before.CPUUsageUsec > 5000 {
		t.Errorf("%d us of processor time while it was paused, %v", after.CPUUsageUsec-before.CPUUsageUsec, err)
	}
	if err := b.client.Ping(t.Context()); err != nil {
		t.Errorf("the runner: %v", err)
	}

	again, err := s.open(t).Open(t.Context(), b.ID())
	if err != nil {
		t.Fatal(err)
	}
	b = use(again)
	if paused, err := pauser(t, b).Paused(); err != nil || !paused {
		t.Errorf("paused %v, %v for another driver", paused, err)
	}
	for range 2 {
		if err := pauser(t, b).Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the program goes on", func() bool { return ticks() > still })
	if out, _ := b.run(t, "echo $((6*7))"); strings.TrimSpace(out) != "42" {
		t.Errorf("a command afterwards gives %q", out)
	}

	if err := pauser(t, b).Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.Destroy(t.Context(), b.ID()); err != nil {
		t.Errorf("Destroy of a paused one: %v", err)
	}
}

func pauser(t *testing.T, b box) runtime.Pauser {
	t.Helper()
	p, ok := b.Sandbox.(runtime.Pauser)
	if !ok {
		t.Fatalf("a %T cannot be paused", b.Sandbox)
	}
	return p
}

// eventually waits until done.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); !done(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("%s: it has not come to that", what)
		}
	}
}
