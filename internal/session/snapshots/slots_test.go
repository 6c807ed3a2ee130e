package snapshots

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// queue notes who gets a slot, in which order.
type queue struct {
	*slots
	t *testing.T

	mu   sync.Mutex
	got  []string            // guarded by mu
	done map[string][]func() // guarded by mu
}

func newQueue(t *testing.T, all int) *queue {
	return &queue{slots: newSlots(all, time.Minute), t: t, done: map[string][]func(){}}
}

// ask wants one for each of the owners, who come one after the other.
func (q *queue) ask(owners string) {
	for owner := range strings.FieldsSeq(owners) {
		go func() {
			done, err := q.take(q.t.Context(), owner)
			q.mu.Lock()
			defer q.mu.Unlock()
			if err != nil {
				q.got = append(q.got, owner+"!")
				return
			}
			q.got = append(q.got, owner)
			q.done[owner] = append(q.done[owner], done)
		}()
		synctest.Wait()
	}
}

// end gives slots of the owners back.
func (q *queue) end(owners string) {
	for owner := range strings.FieldsSeq(owners) {
		q.mu.Lock()
		done := q.done[owner]
		q.done[owner] = done[1:]
		q.mu.Unlock()
		done[0]()
		synctest.Wait()
	}
}

func (q *queue) want(got string) {
	q.t.Helper()
	q.mu.Lock()
	defer q.mu.Unlock()
	if !slices.Equal(q.got, strings.Fields(got)) {
		q.t.Errorf("%q, want %s", q.got, got)
	}
	q.got = nil
}

func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 3)
		q.ask("a a a a b")
		q.want("a a b") // the third is nobody else's, and not a's
		q.ask("b c")
		q.end("a")
		q.want("c") // who has none, though others wait longer
		q.end("c")
		q.want("a")
		q.end("b a a")
		q.want("b a")
		q.end("b a")
		q.want("")

		q = newQueue(t, 1)
		q.ask("a a b")
		q.end("a")
		q.want("a a")
		q.end("a")
		q.want("b")
		q.end("b")
	})
}

// Nobody waits for long, and nobody makes others wait who does not come.
func TestSlotsPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 2)
		q.ask("a b")
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() {
			_, err := q.take(ctx, "c")
			gone <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-gone; !errdefs.Is(err, errdefs.Unavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("gone: %v", err)
		}
		q.ask("c")
		time.Sleep(time.Minute)
		synctest.Wait()
		q.want("a b c!")
		q.end("a b")
		if len(q.waiting) > 0 || q.taken > 0 || len(q.held) > 0 {
			t.Errorf("left: %+v", q.slots)
		}
	})
}

func TestSlotsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 2)
		q.ask("a" + strings.Repeat(" a", maxWaiting))
		if _, err := q.take(t.Context(), "a"); !errdefs.Is(err, errdefs.ResourceExhausted) {
			t.Errorf("one more: %v", err)
		}
		q.ask("b")
		q.want("a b") // who need not wait for them
		q.end("b")
		time.Sleep(time.Minute)
		synctest.Wait()
		q.end("a")
	})
}

func TestSlotsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 2)
		q.ask("a")
		if _, ok := q.alone(); ok {
			t.Error("alone beside another one")
		}
		q.end("a")
		done, ok := q.alone()
		if !ok {
			t.Fatal("not alone")
		}
		q.ask("b c")
		q.want("a")
		done()
		synctest.Wait()
		q.end("b c")
	})
}
