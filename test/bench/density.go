package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/test/bench/machine"
)

// densityCounts are the numbers of idle sessions at which the host is looked at.
var densityCounts = []int{200, 500, 1000, 2000}

// densityWorkers create at one time.
const densityWorkers = 4

// density is what so many idle sessions cost, each of them.
type density struct {
	N            int     `json:"n"`
	CreatePerSec float64 `json:"create_per_second"` // since the count before
	Memory       memory  `json:"memory"`
	Daemon       usage   `json:"daemon"`
	Disk         int64   `json:"disk"`
	Tasks        float64 `json:"tasks"` // processes and threads of the host
	Exec         summary `json:"exec"`  // of true, once in each session
}

// usage is a part of the daemon per session.
type usage struct {
	Bytes       int64   `json:"bytes"` // resident
	Descriptors float64 `json:"descriptors"`
}

// restart is a daemon killed and started again above living sessions.
type restart struct {
	N             int           `json:"n"`
	Ready         time.Duration `json:"ready"`
	Exec          summary       `json:"exec"` // the first true in each session
	DestroyPerSec float64       `json:"destroy_per_second"`
}

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
		s.log("%d sessions: %s each, %.0f created per second, true p99 %s ms", n, megabytes(d.Memory.cost()), d.CreatePerSec, millis(d.Exec.P99))
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
	r := &restart{N: len(boxes), Ready: time.Since(begin)}
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
func (s *suite) execAll(ctx context.Context, boxes []sandbox) (summary, error) {
	sample := make([]time.Duration, 0, len(boxes))
	for _, i := range s.rng.Perm(len(boxes)) {
		begin := time.Now()
		if err := boxes[i].exec(ctx); err != nil {
			return summary{}, err
		}
		sample = append(sample, time.Since(begin))
	}
	return summarize(sample), nil
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

func perSession(before, after host, n int) density {
	return density{
		N: n, Memory: perSandbox(before.memory, after.memory, n),
		Disk:  (after.disk - before.disk) / int64(n),
		Tasks: float64(after.tasks-before.tasks) / float64(n),
		Daemon: usage{
			Bytes:       (after.daemonBytes - before.daemonBytes) / int64(n),
			Descriptors: float64(after.descriptors-before.descriptors) / float64(n),
		},
	}
}

func writeDensity(b *strings.Builder, r results) {
	if len(r.Density) == 0 {
		return
	}
	b.WriteString("\n## Idle sessions, and more of them\n\n" +
		"| sessions | created per second | memory each | of it: anonymous | slab | page tables | the daemon's | disk each | descriptors each | tasks each | `true` p50 ms | p99 ms |\n" +
		"|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, d := range r.Density {
		m := d.Memory
		fmt.Fprintf(b, "| %d | %.0f | %s | %s | %s | %s | %s | %s | %.2f | %.2f | %s | %s |\n", d.N, d.CreatePerSec, megabytes(m.cost()), megabytes(m.Anonymous),
			megabytes(m.Slab), megabytes(m.PageTables), megabytes(d.Daemon.Bytes), megabytes(d.Disk), d.Daemon.Descriptors, d.Tasks, millis(d.Exec.P50), millis(d.Exec.P99))
	}
	if a := r.Restart; a != nil {
		fmt.Fprintf(b, "\nA daemon that is killed above %d sessions is ready again after %.2f s. The first `true` in each session then takes %s ms (p50), %s ms (p99). All are destroyed at %.0f per second.\n",
			a.N, a.Ready.Seconds(), millis(a.Exec.P50), millis(a.Exec.P99), a.DestroyPerSec)
	}
}
