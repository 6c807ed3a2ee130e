package fairqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// work takes a place for a second, and then notes who had it.
func work(ctx context.Context, q *Queue, owner string, done chan<- string) {
	if err := q.Enter(ctx, owner); err != nil {
		done <- owner + " gave up"
		return
	}
	<-time.After(time.Second)
	q.Leave(owner)
	done <- owner
}

// One who asks once is next, behind what is under way, however many others have asked.
func TestOwnersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(1, 1)
		done := make(chan string, 100)
		for _, owner := range []string{"greedy", "greedy", "greedy", "greedy", "alice", "alice", "bob"} {
			go work(t.Context(), q, owner, done)
			synctest.Wait()
		}
		var order []string
		for range 7 {
			order = append(order, <-done)
		}
		if want := []string{"greedy", "greedy", "alice", "bob", "greedy", "alice", "greedy"}; !slices.Equal(order, want) {
			t.Errorf("in the order %v, want %v", order, want)
		}
		if q.taken != 0 || len(q.owners) != 0 || len(q.turns) != 0 {
			t.Errorf("left: %d, %v, %v", q.taken, q.owners, q.turns)
		}
	})
}

// What one owner cannot have is free for another at once.
func TestAnOwnerLeavesPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(3, 2)
		done := make(chan string, 100)
		for range 10 {
			go work(t.Context(), q, "greedy", done)
		}
		synctest.Wait()
		start := time.Now()
		if err := q.Enter(t.Context(), "alice"); err != nil || time.Since(start) != 0 {
			t.Errorf("alice: %v after %s", err, time.Since(start))
		}
		if q.taken != 3 {
			t.Errorf("%d places are taken", q.taken)
		}
		go work(t.Context(), q, "bob", done) // all are taken: bob is next
		if first, second, third := <-done, <-done, <-done; first != "greedy" || second != "greedy" || third != "bob" && third != "greedy" {
			t.Error(first, second, third)
		}
		q.Leave("alice")
		for range 8 {
			<-done
		}
		if q.taken != 0 || len(q.owners) != 0 {
			t.Errorf("left: %d, %v", q.taken, q.owners)
		}
	})
}

// Who gives up holds no place, also if it was given one in that moment.
func TestGivingUpAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(1, 1)
		if err := q.Enter(t.Context(), "greedy"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := q.Enter(ctx, "alice"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("alice: %v", err)
		}
		ready := q.enter("alice")
		q.Leave("greedy")
		<-ready
		q.giveUp("alice", ready)
		if q.taken != 0 || len(q.owners) != 0 || len(q.turns) != 0 {
			t.Errorf("left: %d, %v, %v", q.taken, q.owners, q.turns)
		}
	})
}

// Nobody waits in vain, and there are never more than the places.
func TestPlacesAreAllUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(4, 3)
		done := make(chan string, 100)
		start := time.Now()
		for i := range 100 {
			ctx := t.Context()
			if i%10 == 9 {
				limited, cancel := context.WithTimeout(ctx, time.Millisecond)
				defer cancel()
				ctx = limited
			}
			go work(ctx, q, fmt.Sprint(i%7), done)
		}
		gaveUp := 0
		for range 100 {
			if owner := <-done; len(owner) > 1 {
				gaveUp++
			}
		}
		if took, want := time.Since(start), time.Duration((100-gaveUp+3)/4)*time.Second; took != want {
			t.Errorf("%d took %s, want %s", 100-gaveUp, took, want)
		}
		if q.taken != 0 || len(q.owners) != 0 || len(q.turns) != 0 {
			t.Errorf("left: %d, %v, %v", q.taken, q.owners, q.turns)
		}
	})
}

// What nobody waits for costs no allocation but an owner's first.
func TestEnteringIsFree(t *testing.T) {
	q := New(2, 2)
	if err := q.Enter(t.Context(), "alice"); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() {
		if err := q.Enter(t.Context(), "alice"); err != nil {
			t.Error(err)
		}
		q.Leave("alice")
	}); n != 0 {
		t.Errorf("%g allocations", n)
	}
}
