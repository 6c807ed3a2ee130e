package output

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/sandkasten/sandkasten/protocol"
)

// crowd is many outputs under one budget, which evicts the one that ended first.
type crowd struct {
	mu     sync.Mutex // of ended: outputs of several goroutines evict
	budget *Budget
	live   []*written
	ended  []*written
}

// written is an output and all that was written to it.
type written struct {
	*Output
	model
	follower *follower // nil without one
}

func newCrowd(most int64) *crowd {
	c := &crowd{budget: &Budget{Max: most}}
	c.budget.Evict = c.evict
	return c
}

func (c *crowd) evict() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.ended {
		if w.Memory() > 0 {
			w.Discard()
			return true
		}
	}
	return false
}

func (c *crowd) begin() {
	w := &written{Output: New(c.budget, Kind(rand.IntN(3)), 1+rand.Int64N(Limit))}
	if rand.IntN(4) == 0 {
		w.follower = &follower{Reader: w.Attach(0), attached: true}
	}
	c.live = append(c.live, w)
}

func (c *crowd) end(i int) {
	w := c.live[i]
	w.End()
	if w.follower != nil {
		w.follower.Detach()
	}
	c.live = slices.Delete(c.live, i, i+1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = append(c.ended, w)
}

// check compares what the budget counts with what the outputs hold.
func (c *crowd) check(t *testing.T) {
	t.Helper()
	var held, above int64
	for _, w := range slices.Concat(c.live, c.ended) {
		held += w.Memory()
		above += max(0, w.Memory()-Floor)
		if w.Memory() > w.limit {
			t.Fatalf("%d bytes held with a limit of %d", w.Memory(), w.limit)
		}
	}
	if held != c.budget.Used() {
		t.Fatalf("%d bytes held, %d counted", held, c.budget.Used())
	}
	if above > c.budget.Max {
		t.Fatalf("%d bytes above the floors with a budget of %d", above, c.budget.Max)
	}
}

// checkKept looks at what is left of an output that lives: its beginning and its
// end, or of a terminal its end, as it was written.
func (w *written) checkKept(t *testing.T) {
	t.Helper()
	var kept int64
	for _, p := range w.pieces {
		kept += int64(len(p.data))
		if !bytes.Equal(p.data, w.text[p.offset:p.offset+int64(len(p.data))]) {
			t.Fatalf("other bytes at %d than were written", p.offset)
		}
	}
	total, dropped := w.Counts()
	if total != int64(len(w.text)) || total-dropped != kept {
		t.Fatalf("%d bytes written, %d kept; counted %d and %d", len(w.text), kept, total, dropped)
	}
	if dropped == 0 {
		return
	}
	first, last := w.pieces[0], w.pieces[len(w.pieces)-1]
	if w.kind != Screen && first.offset != 0 {
		t.Fatalf("the first piece is gone: what is kept begins at %d", first.offset)
	}
	if last.offset+int64(len(last.data)) != total || kept < Floor/4 {
		t.Fatalf("%d of %d bytes are kept, up to %d", kept, total, last.offset+int64(len(last.data)))
	}
}

// However many outputs share a full budget, each keeps its first piece and its
// end, and each byte of memory is counted once.
func TestBudgetOfManyOutputs(t *testing.T) {
	for range 15 {
		c := newCrowd(256<<10 + rand.Int64N(4<<20))
		for range 3000 {
			switch k := rand.IntN(100); {
			case k < 3 && len(c.live) < 60 || len(c.live) == 0:
				c.begin()
			case k < 4:
				c.end(rand.IntN(len(c.live)))
			case k < 5 && len(c.ended) > 0:
				c.ended[rand.IntN(len(c.ended))].Discard() // it is forgotten
			default:
				w := c.live[rand.IntN(len(c.live))]
				w.write(w.Output, w.kind)
				if w.follower != nil {
					w.follower.read(t, &w.model, w.kind)
				}
				w.checkKept(t)
			}
			c.check(t)
		}
		for len(c.live) > 0 {
			c.end(0)
		}
		for c.evict() {
		}
		if used := c.budget.Used(); used != 0 {
			t.Fatalf("%d bytes are not given back", used)
		}
	}
}

// Outputs that live and fill the budget together refuse nobody: a writer without
// readers never waits, and the sum is bounded by a floor for each.
func TestBudgetIsFullOfLivingOutputs(t *testing.T) {
	const most, outputs = 2 << 20, 80
	b := testBudget(most)
	var writers sync.WaitGroup
	for i := range outputs {
		o := New(b, Kind(i%3), 0)
		writers.Go(func() {
			for written := 0; written < 3<<20; {
				buf := o.Reserve()
				if buf == nil {
					t.Error("the writer must wait though nobody reads")
					return
				}
				o.Commit(len(buf), protocol.StreamStderr)
				written += len(buf)
			}
		})
	}
	writers.Wait()
	if used := b.Used(); used > most+outputs*Floor {
		t.Errorf("%d bytes of memory", used)
	}
}

// What was reserved before a Discard is counted, and nothing else.
func TestCommitAfterDiscard(t *testing.T) {
	b := testBudget(1 << 20)
	o := New(b, Combined, 0)
	buf := o.Reserve()
	o.Discard()
	o.Commit(len(buf), "")
	total, dropped := o.Counts()
	if total != int64(len(buf)) || dropped != total || b.Used() != 0 {
		t.Errorf("%d bytes written, %d dropped, %d of memory", total, dropped, b.Used())
	}
	o.fill(t, []byte("more"))
	if total, dropped = o.Counts(); total-dropped != 4 {
		t.Errorf("%d bytes written, %d dropped", total, dropped)
	}
}
