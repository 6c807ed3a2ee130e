package laststats_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session/laststats"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// sandbox answers by a function.
type sandbox func(context.Context) (runtime.Stats, error)

func (s sandbox) Stats(ctx context.Context) (runtime.Stats, error) { return s(ctx) }

func TestAReadingCountsForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asker, last, asked := laststats.New(), new(laststats.Last), int64(0)
		var broken error
		subject := laststats.Subject{Last: last, Sandbox: sandbox(func(context.Context) (runtime.Stats, error) {
			asked++
			return runtime.Stats{Pids: asked}, broken
		})}
		for i, c := range []struct {
			after  time.Duration
			broken error
			want   int64
		}{{0, nil, 1}, {time.Second, nil, 1}, {laststats.Fresh, nil, 2}, {laststats.Fresh, errors.New("gone"), 2}, {0, nil, 4}} {
			time.Sleep(c.after)
			broken = c.broken
			asker.Readings(t.Context(), []laststats.Subject{subject})
			if got := last.Get(); got.Pids != c.want {
				t.Errorf("%d: %d, want %d", i, got.Pids, c.want)
			}
		}
	})
}

func TestSlowSandboxesHoldUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asker := laststats.New()
		var now, most atomic.Int64
		subjects := make([]laststats.Subject, 20)
		for i := range subjects {
			subjects[i] = laststats.Subject{Last: new(laststats.Last), Sandbox: sandbox(func(ctx context.Context) (runtime.Stats, error) {
				n := now.Add(1)
				defer now.Add(-1)
				most.Store(max(most.Load(), n))
				if i == 0 {
					return runtime.Stats{Pids: 1}, nil
				}
				<-ctx.Done()
				return runtime.Stats{}, ctx.Err()
			})}
		}
		for range 3 { // the later ones ask nobody a second time
			start := time.Now()
			asker.Readings(t.Context(), subjects)
			if took := time.Since(start); took > laststats.Patience {
				t.Errorf("it took %v", took)
			}
		}
		if subjects[0].Last.Get().Pids != 1 || !subjects[1].Last.Get().At.IsZero() {
			t.Error("readings", subjects[0].Last.Get(), subjects[1].Last.Get())
		}
		time.Sleep(20 * laststats.Timeout)
		if most.Load() != laststats.AtOnce {
			t.Errorf("%d at once", most.Load())
		}
	})
}
