package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/test/bench/report"
)

// contender is a subject and how much of each part it can take.
type contender struct {
	subject
	slow bool // measured in fewer rounds, and fewer at once
	cli  bool // its client is a program per sandbox: left out where that would be what is measured
}

// suite runs the parts of a benchmark and fills in results.
type suite struct {
	contenders []contender
	daemon     *daemon                                                     // nil if ours is not among the contenders
	another    func(ctx context.Context, settings string) (*daemon, error) // starts one more; nil likewise
	rng        *rand.Rand
	scale      float64 // of the numbers of rounds
	log        func(format string, args ...any)
	results    report.Results
}

// part is one measurement that can be asked for by name.
type part struct {
	name string
	run  func(s *suite, ctx context.Context) error
}

var parts = []part{
	{"create", (*suite).create},
	{"claim", (*suite).claim},
	{"network", (*suite).network},
	{"exec", (*suite).exec},
	{"cpu", (*suite).cpu},
	{"stream", (*suite).firstByte},
	{"output", (*suite).output},
	{"files", (*suite).files},
	{"snapshot", (*suite).snapshots},
	{"busy", (*suite).busy},
	{"bullies", (*suite).bullies},
	{"together", (*suite).together},
	{"throughput", (*suite).throughput},
	{"rates", (*suite).rates},
	{"memory", (*suite).memory},
	{"fork", (*suite).fork},
	{"density", (*suite).density},
}

const repetitions = 3

var (
	throughputLevels = []int{1, 2, 4, 8, 16}
	createRates      = []int{10, 25, 50}     // per second
	execRates        = []int{100, 500, 1000} // per second
)

func (s *suite) rounds(n int) int { return max(1, int(float64(n)*s.scale)) }

// create measures one sandbox at a time, from nothing to nothing.
func (s *suite) create(ctx context.Context) error {
	contestants := []contestant{lifecycle(hostBash{}, 1)}
	for _, c := range s.contenders {
		contestants = append(contestants, lifecycle(c.subject, 1))
	}
	var err error
	s.results.Lifecycle, err = interleave(ctx, s.rng, contestants, 3, s.rounds(60))
	return err
}

// exec measures one command at a time in sandboxes that live.
func (s *suite) exec(ctx context.Context) (err error) {
	var contestants []contestant
	if s.daemon != nil {
		contestants = append(contestants, execution("HTTP alone (GET /healthz)", health{s.daemon}, 1))
	}
	contestants = append(contestants, execution(report.HostProgram, hostProgram{}, 1))
	subjects := append([]contender{{subject: hostBash{}}}, s.contenders...)
	var boxes []sandbox
	defer func() { err = errors.Join(err, destroyAll(ctx, boxes, 1)) }()
	for _, c := range subjects {
		box, err := c.create(ctx)
		if err != nil {
			return err
		}
		boxes = append(boxes, box)
		switch err := box.exec(ctx); {
		case errors.Is(err, errors.ErrUnsupported):
			continue
		case err != nil:
			return err
		}
		stride := 1
		if _, ours := c.subject.(*sandkastenSubject); !ours && c.subject != (hostBash{}) {
			stride = 10 // milliseconds each
		}
		contestants = append(contestants, execution(execName(c.name()), box, stride))
		if ours, ok := box.(*session); ok {
			contestants = append(contestants, execution(report.Program, program{ours}, 1))
		}
	}
	measured, err := interleave(ctx, s.rng, contestants, 20, s.rounds(2000))
	s.results.Exec = measured["exec"]
	return err
}

// execName is how an exec in a subject's sandbox is called: that of "crun run"
// is "crun exec".
func execName(subject string) string { return strings.Replace(subject, " run", " exec", 1) }

// together makes many sandboxes a few at a time and keeps them until the last
// one is there.
func (s *suite) together(ctx context.Context) error {
	return s.eachShuffled(repetitions, func(c contender) error {
		n := s.rounds(report.TogetherN)
		if c.slow {
			n = max(1, n/5)
		}
		boxes := make([]sandbox, n)
		made := closedLoop(ctx, report.TogetherWorkers, budget{n: n}, func(ctx context.Context, i int) (time.Time, error) {
			var err error
			boxes[i], err = c.create(ctx)
			return time.Now(), err
		})
		s.results.Together = append(s.results.Together, report.Load{Subject: c.name(), What: "create", Level: report.TogetherWorkers, N: n, Outcome: made})
		begin := time.Now()
		if err := destroyAll(ctx, boxes, report.TogetherWorkers); err != nil {
			return err
		}
		gone := report.Outcome{PerSec: float64(n) / time.Since(begin).Seconds()}
		s.results.Together = append(s.results.Together, report.Load{Subject: c.name(), What: "destroy", Level: report.TogetherWorkers, N: n, Outcome: gone})
		return nil
	})
}

// eachShuffled calls f for each contender several times, in random order.
func (s *suite) eachShuffled(times int, f func(contender) error) error {
	var turns []contender
	for range times {
		for _, c := range s.contenders {
			if !c.cli {
				turns = append(turns, c)
			}
		}
	}
	s.rng.Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
	for _, c := range turns {
		if err := f(c); err != nil {
			return fmt.Errorf("%s: %w", c.name(), err)
		}
	}
	return nil
}

// throughput makes and destroys sandboxes as fast as the machine can.
func (s *suite) throughput(ctx context.Context) error {
	type cell struct {
		contender
		workers int
	}
	var cells []cell
	for _, c := range s.contenders {
		for _, workers := range throughputLevels {
			if !c.cli {
				cells = append(cells, cell{c, workers})
			}
		}
	}
	s.rng.Shuffle(len(cells), func(i, j int) { cells[i], cells[j] = cells[j], cells[i] })
	limit := budget{time: time.Duration(3 * s.scale * float64(time.Second))}
	for _, c := range cells {
		done := closedLoop(ctx, c.workers, limit, func(ctx context.Context, _ int) (time.Time, error) {
			return life(ctx, c.subject)
		})
		s.results.Throughput = append(s.results.Throughput, report.Load{Subject: c.name(), What: "create+destroy", Level: c.workers, N: done.Latency.N, Outcome: done})
	}
	return nil
}

// life creates a sandbox and destroys it, and says when it was ready.
func life(ctx context.Context, s subject) (time.Time, error) {
	box, err := s.create(ctx)
	ready := time.Now()
	if err != nil {
		return ready, err
	}
	return ready, box.destroy(ctx)
}

// rates offers work at fixed rates, as independent clients do.
func (s *suite) rates(ctx context.Context) error {
	seconds := max(1, 5*s.scale)
	for _, rate := range createRates {
		err := s.eachShuffled(1, func(c contender) error {
			if c.slow {
				return nil // far beyond what it can do
			}
			n := int(float64(rate) * seconds)
			done := openLoop(ctx, nanosleep, float64(rate), n, func(ctx context.Context, _ int) (time.Time, error) {
				return life(ctx, c.subject)
			})
			s.results.Rates = append(s.results.Rates, report.Load{Subject: c.name(), What: "create", Level: rate, N: n, Outcome: done})
			return nil
		})
		if err != nil {
			return err
		}
	}
	if s.daemon == nil {
		return nil
	}
	return s.execRates(ctx, seconds)
}

// execRates spreads commands over a few of our sessions.
func (s *suite) execRates(ctx context.Context, seconds float64) (err error) {
	ours := &sandkastenSubject{s.daemon}
	boxes := make([]sandbox, 8)
	defer func() { err = errors.Join(err, destroyAll(ctx, boxes, 1)) }()
	for i := range boxes {
		if boxes[i], err = ours.create(ctx); err != nil {
			return err
		}
	}
	for _, rate := range execRates {
		n := int(float64(rate) * seconds)
		done := openLoop(ctx, nanosleep, float64(rate), n, func(ctx context.Context, i int) (time.Time, error) {
			err := boxes[i%len(boxes)].exec(ctx)
			return time.Now(), err
		})
		s.results.Rates = append(s.results.Rates, report.Load{Subject: ours.name(), What: "exec", Level: rate, N: n, Outcome: done})
	}
	return nil
}

// memory measures what idle sandboxes cost the host. Of several measurements
// the one with the median cost counts: others use memory too.
func (s *suite) memory(ctx context.Context) error {
	measured := map[string][]report.Memory{}
	err := s.eachShuffled(repetitions, func(c contender) error {
		n := s.rounds(100)
		if c.slow {
			n = max(1, n/5)
		}
		m, err := measureMemory(ctx, c.subject, n, 4)
		measured[c.name()] = append(measured[c.name()], m)
		return err
	})
	if err != nil {
		return err
	}
	s.results.Memory = map[string]report.Memory{}
	for name, all := range measured {
		slices.SortFunc(all, func(a, b report.Memory) int { return int(a.Cost() - b.Cost()) })
		s.results.Memory[name] = all[(len(all)-1)/2]
	}
	return nil
}
