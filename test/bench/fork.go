package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sandkasten/sandkasten/test/bench/report"
)

const (
	forkPool  = "disk: {pool_mb: 65536}"
	writeMuch = "head -c %d /dev/urandom > big; rm -f small*; for i in $(seq 1000); do echo $i > small$i; done"
)

// forkCounts are how many forks one request asks for, where that copies
// nothing.
var forkCounts = []int{1, 10, 100}

// fork measures forks of a session with much written, beside creates of the
// same daemon: with its disks as they are, and in a pool.
func (s *suite) fork(ctx context.Context) error {
	if s.daemon == nil {
		return nil
	}
	pooled, err := s.another(ctx, forkPool)
	if err != nil {
		return err
	}
	s.results.Fork = map[string]map[string]report.Summary{}
	for name, d := range map[string]*daemon{"plain": s.daemon, "pool": pooled} {
		s.results.Fork[name] = map[string]report.Summary{}
		if err := s.forksOf(ctx, d, s.results.Fork[name]); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", name, err), pooled.stop(context.WithoutCancel(ctx)))
		}
	}
	return pooled.stop(ctx)
}

func (s *suite) forksOf(ctx context.Context, d *daemon, into map[string]report.Summary) (err error) {
	made, err := (&sandkastenSubject{d}).create(ctx)
	if err != nil {
		return err
	}
	source := made.(*session)
	defer func() { err = errors.Join(err, source.destroy(context.WithoutCancel(ctx))) }()
	write := fmt.Sprintf(writeMuch, report.ForkedMB<<20)
	if err := source.run(ctx, write+"; sync", ""); err != nil {
		return err
	}
	settled := contestant{report.ForkSettled, 1, func(ctx context.Context, record func(string, time.Duration)) error {
		return source.timeForks(ctx, 1, func(took time.Duration) { record("ready", took) })
	}}
	if err := settled.once(ctx, func(string, time.Duration) {}); err != nil { // writes out what sync did not
		return err
	}
	cold := lifecycle(&sandkastenSubject{d}, 1)
	cold.name = report.ForkCold
	both, err := interleave(ctx, s.rng, []contestant{cold, settled}, 1, s.rounds(20))
	if err != nil {
		return err
	}
	into[report.ForkCold], into[report.ForkSettled] = both["ready"][report.ForkCold], both["ready"][report.ForkSettled]
	var sample []time.Duration
	for range s.rounds(3) {
		if err := source.run(ctx, write, ""); err != nil {
			return err
		}
		if err := source.timeForks(ctx, 1, func(took time.Duration) { sample = append(sample, took) }); err != nil {
			return err
		}
	}
	into["fork, just written"] = report.Summarize(sample)
	if d == s.daemon {
		return nil
	}
	for _, n := range forkCounts {
		var sample []time.Duration
		for range s.rounds(3) {
			if err := source.timeForks(ctx, n, func(took time.Duration) { sample = append(sample, took) }); err != nil {
				return err
			}
		}
		into[fmt.Sprintf("fork, settled, %d at once", n)] = report.Summarize(sample)
	}
	return nil
}

// timeForks makes n forks, and tells how long it took until the last of them
// had answered. It leaves none.
func (s *session) timeForks(ctx context.Context, n int, took func(time.Duration)) (err error) {
	var made struct {
		Sessions []struct {
			ID string `json:"id"`
		} `json:"sessions"`
	}
	start := time.Now()
	if err := s.daemon.call(ctx, http.MethodPost, "/v1/sessions/"+s.id+"/fork", object{"count": n}, &made); err != nil {
		return err
	}
	var boxes []sandbox
	for _, fork := range made.Sessions {
		boxes = append(boxes, &session{s.daemon, fork.ID})
	}
	defer func() { err = errors.Join(err, destroyAll(context.WithoutCancel(ctx), boxes, report.TogetherWorkers)) }()
	for _, box := range boxes {
		if err := box.(*session).run(ctx, "echo ok", "ok\n"); err != nil {
			return err
		}
	}
	took(time.Since(start))
	return nil
}
