package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/sandkasten/sandkasten/test/bench/machine"
	"github.com/sandkasten/sandkasten/test/bench/report"
)

// densityCounts are the numbers of idle sessions at which the host is looked at.
var densityCounts = []int{200, 500, 1000, 2000}

// densityWorkers create at one time.
const densityWorkers = 4

// host is what density compares.
type host struct {
	memory      map[string]int64
	tasks       int
	disk        int64 // of the sandboxes' files
	daemonBytes int64
	descriptors int
}

// density lets a crowd of idle sessions grow and looks at the host at each
// count. It ends with a restart of the daemon and the end of all.
func (s *suite) density(ctx context.Context) (err error) {
	if s.daemon == nil {
		return nil
	}
	ours := &sandkastenSubject{s.daemon}
	before, err := s.readHost(ctx)
	if err != nil {
		return err
	}
	var boxes []sandbox
	defer func() {
		if err != nil {
			err = errors.Join(err, destroyAll(context.WithoutCancel(ctx), boxes, densityWorkers))
		}
	}()
	for _, count := range densityCounts {
		n := s.rounds(count)
		first := len(boxes)
		boxes = append(boxes, make([]sandbox, n-first)...)
		made := closedLoop(ctx, densityWorkers, budget{n: n - first}, func(ctx context.Context, i int) (time.Time, error) {
			var err error
			boxes[first+i], err = ours.create(ctx)
			return time.Now(), err
		})
		if made.Failures > 0 {
			return fmt.Errorf("%d of %d not made: %s", made.Failures, n, made.FirstErr)
		}
		after, err := s.readHost(ctx)
		if err != nil {
			return err
		}
		d := perSession(before, after, n)
		d.CreatePerSec = made.PerSec
		if d.Exec, err = s.execAll(ctx, boxes); err != nil {
			return err
		}
		s.log("%d sessions: %.2f MB each, %.0f created per second, true p99 %v", n, float64(d.Memory.Cost())/1e6, d.CreatePerSec, d.Exec.P99)
		s.results.Density = append(s.results.Density, d)
	}
	return s.restart(ctx, boxes)
}

// restart kills the daemon, starts it again, and ends the sessions.
func (s *suite) restart(ctx context.Context, boxes []sandbox) error {
	if err := s.daemon.crash(); err != nil {
		return err
	}
	begin := time.Now()
	if err := s.daemon.start(ctx); err != nil {
		return err
	}
	r := &report.Restart{N: len(boxes), Ready: time.Since(begin)}
	var err error
	if r.Exec, err = s.execAll(ctx, boxes); err != nil {
		return err
	}
	begin = time.Now()
	if err := destroyAll(ctx, boxes, densityWorkers); err != nil {
		return err
	}
	r.DestroyPerSec = float64(len(boxes)) / time.Since(begin).Seconds()
	s.results.Restart = r
	return nil
}

// execAll asks every sandbox once, one after another and in an order of chance.
func (s *suite) execAll(ctx context.Context, boxes []sandbox) (report.Summary, error) {
	sample := make([]time.Duration, 0, len(boxes))
	for _, i := range s.rng.Perm(len(boxes)) {
		begin := time.Now()
		if err := boxes[i].exec(ctx); err != nil {
			return report.Summary{}, err
		}
		sample = append(sample, time.Since(begin))
	}
	return report.Summarize(sample), nil
}

// readHost reads what there is once the host has settled.
func (s *suite) readHost(ctx context.Context) (h host, err error) {
	if h.memory, err = readMeminfo(ctx); err != nil {
		return h, err
	}
	if h.tasks, err = machine.Tasks(); err != nil {
		return h, err
	}
	if h.disk, err = machine.Disk(filepath.Join(s.daemon.dir, "sandboxes")); err != nil {
		return h, err
	}
	h.daemonBytes, h.descriptors, err = machine.Process(s.daemon.cmd.Process.Pid)
	return h, err
}

func perSession(before, after host, n int) report.Density {
	return report.Density{
		N: n, Memory: perSandbox(before.memory, after.memory, n),
		Disk:  (after.disk - before.disk) / int64(n),
		Tasks: float64(after.tasks-before.tasks) / float64(n),
		Daemon: report.Usage{
			Bytes:       (after.daemonBytes - before.daemonBytes) / int64(n),
			Descriptors: float64(after.descriptors-before.descriptors) / float64(n),
		},
	}
}
