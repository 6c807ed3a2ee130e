package adapter

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// Bodies of one owner and of all are bounded, a request that is over it waits a
// while, and nothing stays counted.
func TestBodiesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBodies()
		take := func(owner string, n int64) func() {
			t.Helper()
			give, err := b.take(t.Context(), owner, n)
			if err != nil {
				t.Fatalf("%s with %d bytes: %v", owner, n, err)
			}
			return give
		}
		refused := func(owner string, n int64, code errdefs.Code) {
			t.Helper()
			start := time.Now()
			if _, err := b.take(t.Context(), owner, n); !errdefs.Is(err, code) || time.Since(start) != bodyPatience {
				t.Errorf("%s with %d bytes: %v after %s, want %s", owner, n, err, time.Since(start), code)
			}
		}
		alice := take("alice", bodiesPerOwner)
		refused("alice", smallBody, errdefs.ResourceExhausted)
		take("alice", smallBody-1)() // does not count
		bob := take("bob", bodiesPerOwner-smallBody)
		refused("carol", smallBody+1, errdefs.Unavailable)
		carol := take("carol", smallBody)

		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := b.take(canceled, "carol", bodiesTotal); err == nil {
			t.Error("a client that is gone got a place")
		}
		time.AfterFunc(time.Second, func() { alice(); alice() })
		again := take("alice", bodiesPerOwner) // waits for the second
		for _, give := range []func(){again, bob, carol} {
			give()
		}
		take("alice", bodiesTotal*2)() // one alone, whatever its size
		if b.total != 0 || len(b.owned) != 0 {
			t.Errorf("%d bytes of %v are still counted", b.total, b.owned)
		}
	})
}
