package far_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/runtimetest"
	"github.com/sandkasten/sandkasten/internal/runtime/runtimetest/far"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// delay of each direction: an answer comes 200 ms after its request, or later.
const delay = 100 * time.Millisecond

// TestDriver holds a driver to the contract whose sandboxes are 200 ms away.
func TestDriver(t *testing.T) {
	server := far.NewServer(t)
	link := far.NewLink(t, server.Addr(), delay)
	open := func(*testing.T) runtime.Driver { return &far.Driver{Addr: link.Addr()} }
	began := time.Now()
	if err := open(t).Check(t.Context()); err != nil || time.Since(began) < 2*delay {
		t.Fatalf("an answer after %v, %v", time.Since(began), err)
	}
	runtimetest.TestDriver(t, open, runtimetest.Options{
		Image:      runtimetest.LocalImage,
		Kill:       func(t *testing.T, id runtime.ID) { server.Local.KillRunner(t, id) },
		Unlimited:  true,
		NoClaims:   true,
		NoRoots:    true,
		NoNetworks: true,
	})
}

// Who waits for a far end that does not answer waits no longer than they want to.
func TestAFarEndThatIsSilent(t *testing.T) {
	server := far.NewServer(t)
	link := far.NewLink(t, server.Addr(), 0)
	d := &far.Driver{Addr: link.Addr(), CancelTime: 50 * time.Millisecond}
	link.Block()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := runtime.Survey(ctx, d)
	if !errdefs.Is(err, errdefs.Unavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while it is silent: %v", err)
	}
	link.Unblock()
	if err := d.Check(t.Context()); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
