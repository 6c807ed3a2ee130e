package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandkasten/sandkasten/test/bench/report"
)

func TestInterleaveShufflesEachRoundAndDropsWarmup(t *testing.T) {
	var order []string
	subject := func(name string, stride int) contestant {
		return contestant{name, stride, func(_ context.Context, record func(string, time.Duration)) error {
			order = append(order, name)
			record("took", time.Duration(len(order)))
			return nil
		}}
	}
	const warmup, rounds = 2, 20
	got, err := interleave(t.Context(), rand.New(rand.NewPCG(1, 2)),
		[]contestant{subject("a", 1), subject("b", 1), subject("slow", 5)}, warmup, rounds)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"a": rounds, "b": rounds, "slow": rounds / 5} {
		if n := got["took"][name].N; n != want {
			t.Errorf("%s was counted %d times, want %d", name, n, want)
		}
	}
	// All take part in the warm-up, and what they did there is not the minimum.
	if warm := strings.Join(order[:6], " "); strings.Count(warm, "slow") != 2 {
		t.Errorf("the warm-up was %s", warm)
	}
	if first := min(got["took"]["a"].Min, got["took"]["b"].Min, got["took"]["slow"].Min); first != 7 {
		t.Errorf("the first counted run was number %d, want 7", first)
	}
	firsts := map[string]bool{}
	for i := 6; i < len(order); i++ {
		firsts[order[i]+order[i-1]] = true
	}
	if len(firsts) < 4 {
		t.Errorf("the order hardly changes: %q", order)
	}
}

func TestInterleaveNamesWhoFailed(t *testing.T) {
	broken := errors.New("broken")
	_, err := interleave(t.Context(), rand.New(rand.NewPCG(1, 2)), []contestant{
		{"bad", 1, func(context.Context, func(string, time.Duration)) error { return broken }},
	}, 0, 1)
	if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "bad: ") {
		t.Errorf("got %v", err)
	}
}

// take is an operation that takes d.
func take(d time.Duration) operation {
	return func(context.Context, int) (time.Time, error) {
		time.Sleep(d)
		return time.Now(), nil
	}
}

func TestClosedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := closedLoop(t.Context(), 4, budget{n: 40}, take(100*time.Millisecond))
		if got.Latency.N != 40 || got.PerSec != 40 || got.Latency.Max != 100*time.Millisecond {
			t.Errorf("40 by 4 workers: %+v", got)
		}
		got = closedLoop(t.Context(), 2, budget{time: time.Second}, take(300*time.Millisecond))
		if got.Latency.N != 8 {
			t.Errorf("a second of 2 workers that take 300 ms: %+v", got)
		}
	})
}

func TestClosedLoopCountsFailures(t *testing.T) {
	got := closedLoop(t.Context(), 2, budget{n: 10}, func(_ context.Context, i int) (time.Time, error) {
		if i%5 == 0 {
			return time.Now(), errors.New("full")
		}
		return time.Now(), nil
	})
	if got.Failures != 2 || got.Latency.N != 8 || got.FirstErr != "full" {
		t.Errorf("got %+v", got)
	}
}

// A server that stalls once must show in the latency of all that came
// meanwhile, not only in that of the one operation it held.
func TestOpenLoopCountsFromWhenWorkWasDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := make(chan struct{}, 1)
		got := openLoop(t.Context(), time.Sleep, 10, 20, func(_ context.Context, i int) (time.Time, error) {
			server <- struct{}{}
			defer func() { <-server }()
			if i == 0 {
				time.Sleep(time.Second)
			}
			return time.Now(), nil
		})
		want := report.Summary{N: 20, Min: 0, P50: 0, P95: 900 * time.Millisecond, P99: time.Second, Max: time.Second}
		if got.Latency != want {
			t.Errorf("latencies %+v, want %+v", got.Latency, want)
		}
	})
}

func TestOpenLoopEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		got := openLoop(ctx, time.Sleep, 10, 100, take(0))
		if got.Failures < 85 || got.Latency.N < 10 {
			t.Errorf("got %+v", got)
		}
	})
}

func TestNanosleepIsPrecise(t *testing.T) {
	var late []time.Duration
	for range 20 {
		begin := time.Now()
		nanosleep(300 * time.Microsecond)
		late = append(late, time.Since(begin)-300*time.Microsecond)
	}
	// The best of them, because the machine may do other things.
	if s := report.Summarize(late); s.Min < 0 || s.Min > 500*time.Microsecond {
		t.Errorf("it oversleeps by %+v", s)
	}
	nanosleep(-time.Second)
}
