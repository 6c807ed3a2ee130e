package kit_test

import (
	"context"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/runtime/runtimetest"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/store"
	"github.com/sandkasten/sandkasten/internal/store/storetest"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// images knows every name.
type images struct{}

func (images) Resolve(context.Context, string) (string, error) { return runtimetest.LocalImage, nil }

// newManager is a manager of sessions that runs until the test ends.
func newManager(t *testing.T) *session.Manager {
	t.Helper()
	db, err := store.Open(t.Context(), storetest.NewDB(t))
	if err != nil {
		t.Fatal(err)
	}
	m := session.New(session.Options{Store: db, Driver: runtimetest.NewLocal(t), Images: images{}, Defaults: session.Defaults{Image: "base"}})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	for !m.Ready() {
		time.Sleep(time.Millisecond)
	}
	return m
}
