package runtimetest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/runtimetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLocal(t *testing.T) {
	l := runtimetest.NewLocal(t)
	// Another Local on the same directory is what a restart of the daemon is.
	open := func(*testing.T) runtime.Driver { return &runtimetest.Local{Dir: l.Dir, Runner: l.Runner} }
	runtimetest.TestDriver(t, open, runtimetest.Options{
		Image:      runtimetest.LocalImage,
		Kill:       func(t *testing.T, id runtime.ID) { l.KillRunner(t, id) },
		Unlimited:  true,
		NoClaims:   true,
		NoRoots:    true,
		NoNetworks: true,
	})
}
