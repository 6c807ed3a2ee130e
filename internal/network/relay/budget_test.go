package relay

import (
	"testing"
	"testing/synctest"
	"time"
)

// holder takes places and notes which of them ended for others.
type holder struct {
	t      *testing.T
	budget *Budget
	ended  map[string][]int
}

// take takes the n-th place of an owner.
func (h *holder) take(owner string, n int) *lease {
	return h.budget.take(owner, func() { h.ended[owner] = append(h.ended[owner], n) })
}

// fill takes places while there are some, and returns them.
func (h *holder) fill(owner string, most int) (taken []*lease) {
	for i := range most {
		l := h.take(owner, i)
		if l == nil {
			break
		}
		taken = append(taken, l)
	}
	return taken
}

func (h *holder) wantEnded(what, owner string, want int) {
	h.t.Helper()
	if got := len(h.ended[owner]); got != want {
		h.t.Errorf("%s: of %s %v ended, want %d", what, owner, h.ended[owner], want)
	}
}

// Who has all of it gives back what is idle, up to an equal share of each, and nobody else
// loses anything.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &holder{t, NewBudget(100, 80), map[string][]int{}}
		greedy := h.fill("greedy", 200)
		if len(greedy) != 80 {
			t.Fatalf("greedy has %d, want 80", len(greedy))
		}
		modest := h.fill("modest", 20)
		for _, l := range modest {
			l.touch()
		}
		if len(modest) != 20 || h.budget.Open() != 100 {
			t.Fatalf("modest has %d of 20, all %d", len(modest), h.budget.Open())
		}
		h.wantEnded("while there is room", "greedy", 0)

		// A third one finds no place free: who has the most gives, what is idle first.
		time.Sleep(time.Minute)
		for _, l := range greedy[:40] {
			l.touch()
		}
		if late := h.fill("late", 30); len(late) != 30 {
			t.Errorf("late has %d of 30", len(late))
		}
		h.wantEnded("for a third", "greedy", 30)
		h.wantEnded("for a third", "modest", 0)
		for _, n := range h.ended["greedy"] {
			if n < 40 {
				t.Errorf("the %d. of greedy ended, which was in use", n)
			}
		}

		// Over an equal share one's own go, and only what is idle.
		for _, l := range modest {
			l.touch()
		}
		more := h.fill("late", 10)
		h.wantEnded("up to a share", "greedy", 33)
		h.wantEnded("over the share", "late", 0)
		if len(more) != 3 {
			t.Errorf("late has %d more, want the 3 up to its share", len(more))
		}
		time.Sleep(idleLease + time.Second)
		if h.take("late", 99) == nil {
			t.Error("over its share, with idle ones of its own: refused")
		}
		h.wantEnded("over the share with idle ones", "late", 1)
		h.wantEnded("in the end", "modest", 0)
		if h.budget.Open() != 100 || h.budget.Refused() != 2 {
			t.Errorf("%d are open and %d were refused, want 100 and 2", h.budget.Open(), h.budget.Refused())
		}
		for _, l := range greedy {
			h.budget.leave(l) // also those that were taken from it
			h.budget.leave(l)
		}
		if h.budget.Open() != 53 {
			t.Errorf("%d are open when greedy has left, want 53", h.budget.Open())
		}
	})
}
