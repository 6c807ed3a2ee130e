package kit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// Bodies of one owner and of all are bounded, a request that is over it waits a
// while, and nothing stays counted.
func TestBodiesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBodies(bodiesTotal, bodiesPerOwner, bodyPatience, "")
		take := func(owner string, n int64) func() {
			t.Helper()
			mine, err := b.take(t.Context(), owner, n)
			if err != nil {
				t.Fatalf("%s with %d bytes: %v", owner, n, err)
			}
			return mine.end
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

// What waits for a program is counted apart once its body has been decoded: an
// owner's are bounded, at once and as long as they last, and nobody else waits.
func TestHeldBodiesAreBounded(t *testing.T) {
	c := newCounts("")
	const size = 8 << 20
	hold := func(owner string) (end func(), err error) {
		charged, err := c.begin(t.Context(), owner, size, api.Long)
		if err != nil {
			return nil, err
		}
		charged.decoded(size)
		return charged.end, nil
	}
	var ends []func()
	for range heldPerOwner / size {
		end, err := hold("alice")
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, end)
	}
	for range 2 { // what is refused holds nothing
		if _, err := hold("alice"); !errdefs.Is(err, errdefs.ResourceExhausted) {
			t.Errorf("one too many: %v", err)
		}
	}
	end, err := hold("bob")
	if err != nil {
		t.Errorf("another owner: %v", err)
	}
	if c.decoding.total != 0 || c.held.total != heldPerOwner+size {
		t.Errorf("%d bytes are being decoded, %d are held", c.decoding.total, c.held.total)
	}
	for _, end := range append(ends, end) {
		end()
	}
	if c.decoding.total != 0 || c.held.total != 0 {
		t.Errorf("afterwards %d bytes are being decoded, %d are held", c.decoding.total, c.held.total)
	}
	// Who waits for nothing is not held.
	charged, err := c.begin(t.Context(), "alice", size, api.Short)
	if err != nil || c.held.total != 0 || c.decoding.total != size {
		t.Fatalf("%v, %d bytes are held, %d are being decoded", err, c.held.total, c.decoding.total)
	}
	charged.decoded(size) // it counts until its end
	if charged.end(); c.decoding.total != 0 {
		t.Errorf("%d bytes are being decoded", c.decoding.total)
	}
}

// A body that cannot be decoded is not held either, and one that is held and has no room to
// be decoded is given back.
func TestRefusedBodiesAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounts("")
		bobs, err := c.decoding.take(t.Context(), "bob", bodiesTotal)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.begin(t.Context(), "alice", smallBody, api.Long); !errdefs.Is(err, errdefs.Unavailable) {
			t.Errorf("without room: %v", err)
		}
		bobs.end()
		charged, err := c.begin(t.Context(), "alice", smallBody, api.Long)
		if err != nil {
			t.Fatal(err)
		}
		charged.end() // its JSON is wrong
		if c.decoding.total != 0 || c.held.total != 0 {
			t.Errorf("%d bytes are being decoded, %d are held", c.decoding.total, c.held.total)
		}
	})
}
