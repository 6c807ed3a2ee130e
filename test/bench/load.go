package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/test/bench/report"
)

// contestant is one thing measured beside others. Once does it one time and
// records how long its parts took.
type contestant struct {
	name   string
	stride int // it takes part in every stride-th round: 1 for what is quick
	once   func(ctx context.Context, record func(metric string, took time.Duration)) error
}

// interleave measures contestants side by side: in each round each of them
// once, in an order shuffled anew, so that what else the machine does falls on
// all of them alike. The first warmup rounds, in which all take part, are not
// counted. The result is by metric, then by contestant.
func interleave(ctx context.Context, rng *rand.Rand, contestants []contestant, warmup, rounds int) (map[string]map[string]report.Summary, error) {
	samples := map[string]map[string][]time.Duration{}
	for round := range warmup + rounds {
		for _, i := range rng.Perm(len(contestants)) {
			c := contestants[i]
			counted := round >= warmup
			if counted && (round-warmup)%c.stride != 0 {
				continue
			}
			err := c.once(ctx, func(metric string, took time.Duration) {
				if !counted {
					return
				}
				if samples[metric] == nil {
					samples[metric] = map[string][]time.Duration{}
				}
				samples[metric][c.name] = append(samples[metric][c.name], took)
			})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	summaries := map[string]map[string]report.Summary{}
	for metric, byName := range samples {
		summaries[metric] = map[string]report.Summary{}
		for name, sample := range byName {
			summaries[metric][name] = report.Summarize(sample)
		}
	}
	return summaries, nil
}

// collector gathers what concurrent operations report.
type collector struct {
	mu     sync.Mutex
	sample []time.Duration // guarded by mu
	failed int             // guarded by mu
	first  error           // guarded by mu
}

func (c *collector) add(took time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.sample = append(c.sample, took)
		return
	}
	if c.first == nil {
		c.first = err
	}
	c.failed++
}

func (c *collector) outcome(elapsed time.Duration) report.Outcome {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := report.Outcome{PerSec: float64(len(c.sample)) / elapsed.Seconds(), Failures: c.failed}
	if c.first != nil {
		o.FirstErr = c.first.Error()
	}
	o.Latency = report.Summarize(c.sample)
	return o
}

// operation does the i-th operation of a load and says when the part of it
// that is measured had ended.
type operation func(ctx context.Context, i int) (time.Time, error)

// budget ends a load after n operations or after a time, whichever is first;
// zero is no end.
type budget struct {
	n    int
	time time.Duration
}

func (b budget) spent(i int, elapsed time.Duration) bool {
	return b.n > 0 && i >= b.n || b.time > 0 && elapsed >= b.time
}

// closedLoop has workers do operations, each worker its next one as soon as
// its last has ended. It tells how much the machine can do; its latencies are
// not what a client sees who does not wait for others.
func closedLoop(ctx context.Context, workers int, limit budget, op operation) report.Outcome {
	var (
		c    collector
		next atomic.Int64
		wg   sync.WaitGroup
	)
	begin := time.Now()
	for range workers {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				started := time.Now()
				if limit.spent(i, started.Sub(begin)) {
					return
				}
				ended, err := op(ctx, i)
				c.add(ended.Sub(started), err)
			}
		})
	}
	wg.Wait()
	return c.outcome(time.Since(begin))
}

// openLoop starts n operations at a fixed rate, whether or not earlier ones
// have ended. A latency counts from the moment the operation was due, so that
// one slow operation is felt by all that came while it ran, as by clients who
// do not know of each other. sleep must be precise: what it oversleeps is part
// of every latency.
func openLoop(ctx context.Context, sleep func(time.Duration), perSecond float64, n int, op operation) report.Outcome {
	var (
		c  collector
		wg sync.WaitGroup
	)
	begin := time.Now()
	for i := range n {
		due := begin.Add(time.Duration(float64(i) / perSecond * float64(time.Second)))
		if err := ctx.Err(); err != nil {
			c.add(0, err)
			continue
		}
		sleep(time.Until(due))
		wg.Go(func() {
			ended, err := op(ctx, i)
			c.add(ended.Sub(due), err)
		})
	}
	wg.Wait()
	return c.outcome(time.Since(begin))
}

// nanosleep sleeps to within some tens of microseconds. time.Sleep waits with
// the network poller, whose clock ticks in milliseconds. An interrupted sleep
// goes on with what is left of it.
func nanosleep(d time.Duration) {
	left := unix.NsecToTimespec(int64(d))
	for d > 0 && errors.Is(unix.Nanosleep(&left, &left), unix.EINTR) {
	}
}
