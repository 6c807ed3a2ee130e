package runtime

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

func TestLimitsOr(t *testing.T) {
	defaults := Limits{CPU: 1, MemoryMB: 2, Pids: 3, DiskMB: 4}
	for asked, want := range map[Limits]Limits{
		{}:                       defaults,
		{CPU: 0.5, Pids: 9}:      {CPU: 0.5, MemoryMB: 2, Pids: 9, DiskMB: 4},
		{MemoryMB: 7, DiskMB: 8}: {CPU: 1, MemoryMB: 7, Pids: 3, DiskMB: 8},
	} {
		if got := asked.Or(defaults); got != want {
			t.Errorf("%+v: %+v, want %+v", asked, got, want)
		}
	}
}

func TestIDSaysItsDriver(t *testing.T) {
	for _, c := range []struct {
		id     ID
		driver string
		want   ID
	}{
		{"abc", Native, "abc"},
		{"abc", "docker", "docker_abc"},
		{"pool-1-abc", Native, "pool-1-abc"},
	} {
		if got := c.id.In(c.driver); got != c.want || got.Driver() != c.driver {
			t.Errorf("%s in %s: %s of %s, want %s", c.id, c.driver, got, got.Driver(), c.want)
		}
	}
}

func TestPassingID(t *testing.T) {
	for _, driver := range []string{Native, "docker"} {
		if id := NewPassingID().In(driver); !id.Passing() || id.Driver() != driver {
			t.Errorf("%s in %s: %v", id, driver, id.Passing())
		}
	}
	for _, id := range []ID{"", "abc", "docker_abc", "pool-1-abc", "docker_pool-1-abc", "passing_abc"} {
		if id.Passing() {
			t.Errorf("%s is taken for one", id)
		}
	}
}

// silent is a driver that answers when nobody waits any more.
type silent struct{ Driver }

func (silent) Open(ctx context.Context, _ ID) (Sandbox, error) { <-ctx.Done(); return nil, ctx.Err() }

func (silent) List(ctx context.Context) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		<-ctx.Done()
		yield(Status{}, ctx.Err())
	}
}

func TestNobodyWaitsForeverForADriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if _, err := OpenInTime(t.Context(), silent{}, "a"); !errdefs.Is(err, errdefs.Unavailable) || time.Since(began) != openTime {
			t.Errorf("Open after %v: %v", time.Since(began), err)
		}
		began = time.Now()
		if _, err := Survey(t.Context(), silent{}); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != surveyTime {
			t.Errorf("List after %v: %v", time.Since(began), err)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := OpenInTime(gone, silent{}, "a"); !errors.Is(err, context.Canceled) || errdefs.Is(err, errdefs.Unavailable) {
			t.Errorf("for a caller that has left: %v", err)
		}
	})
}
