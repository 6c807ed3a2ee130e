package admission

import (
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// TestTurns: one owner has half of the places, and all together no more than there are.
func TestTurns(t *testing.T) {
	turns := newTurns(8)
	begin := func(owner string, want errdefs.Code) (end func()) {
		t.Helper()
		end, err := turns.Begin(owner)
		if errdefs.CodeOf(err) != want && (err != nil || want != "") {
			t.Errorf("%s: %v, want %q", owner, err, want)
		}
		return end
	}
	first := begin("alice", "")
	for range 3 {
		begin("alice", "")
	}
	begin("alice", errdefs.ResourceExhausted)
	for range 4 {
		begin("bob", "")
	}
	begin("carol", errdefs.Unavailable)
	first()
	begin("carol", "")
	begin("alice", errdefs.Unavailable)
	if len(turns.owners) != 3 || turns.all != 8 {
		t.Errorf("%+v", turns)
	}
}

// One fork of as many as a request may ask for is let through on the smallest host.
func TestTurnsLetAForkThrough(t *testing.T) {
	const maxForks = 100 // session.MaxForks
	for processors, want := range map[int]int{1: 256, 2: 256, 4: 512, 64: 8192} {
		if got := turnsOf(processors); got != want {
			t.Errorf("%d processors: %d turns, want %d", processors, got, want)
		}
	}
	turns := newTurns(turnsOf(1))
	for i := range maxForks {
		if _, err := turns.Begin("alice"); err != nil {
			t.Fatalf("fork %d: %v", i, err)
		}
	}
}
