package admission

import (
	"context"
	"runtime"
	"sync"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// turnsPerCPU is how many sandboxes may be on their way for each processor. What a
// processor makes in a second is a tenth of it: those that come first are not made slower
// by all others, and those that come later are told at once.
const turnsPerCPU = 128

// leastTurns is for hosts with one processor: a fork makes up to 100 at once, and one owner
// has half.
const leastTurns = 256

// Turns bounds the creates that are under way: in all, and of one owner to half of that.
type Turns struct {
	most int

	mu     sync.Mutex
	all    int            // guarded by mu
	owners map[string]int // guarded by mu; none is 0
}

// NewTurns returns what bounds the creates of this host.
func NewTurns() *Turns { return newTurns(turnsOf(runtime.NumCPU())) }

func turnsOf(processors int) int { return max(leastTurns, turnsPerCPU*processors) }

func newTurns(most int) *Turns { return &Turns{most: most, owners: map[string]int{}} }

// Most is how many there may be in all.
func (t *Turns) Most() int { return t.most }

// During counts a create of an owner until ctx ends, or refuses it.
func (t *Turns) During(ctx context.Context, owner string) error {
	end, err := t.Begin(owner)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, end)
	return nil
}

// Begin counts a create of an owner until end is called, or refuses it.
func (t *Turns) Begin(owner string) (end func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.owners[owner] >= t.most/2 {
		return nil, errdefs.New(errdefs.ResourceExhausted, "%d sessions of this key are being created: wait for one of them", t.owners[owner])
	}
	if t.all >= t.most {
		return nil, errdefs.New(errdefs.Unavailable, "%d sessions are being created on this host; try again", t.all)
	}
	t.all++
	t.owners[owner]++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.all--
		if t.owners[owner]--; t.owners[owner] == 0 {
			delete(t.owners, owner)
		}
	}, nil
}
