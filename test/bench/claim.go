package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sandkasten/sandkasten/test/bench/report"
	"github.com/sandkasten/sandkasten/test/bench/service"
)

// poolSettings configure a daemon with a pool.
var poolSettings = fmt.Sprintf("pool: {enabled: true, images: {%s: %d}, max_ready: %d}", imageName, report.BurstN, report.BurstN)

// pooledSubject makes sessions from a pool.
type pooledSubject struct{ sandkastenSubject }

func (*pooledSubject) name() string { return report.Pooled }

// claim measures what a pool saves one session, and how it stands many at once.
func (s *suite) claim(ctx context.Context) (err error) {
	if s.another == nil {
		return nil
	}
	d, err := s.another(ctx, poolSettings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stopPooled(context.WithoutCancel(ctx))) }()
	if err := d.awaitPool(ctx); err != nil {
		return err
	}
	ours := &pooledSubject{sandkastenSubject{d}}
	contestants := []contestant{lifecycle(ours, 1), lifecycle(&sandkastenSubject{s.daemon}, 1)}
	measured, err := interleave(ctx, s.rng, contestants, 3, s.rounds(report.BurstN-10)) // fewer than are ready
	if err != nil {
		return err
	}
	s.results.Claim = measured["ready"]
	for range repetitions {
		if err := s.burst(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// burst asks for as many sessions at once as are ready.
func (s *suite) burst(ctx context.Context, d *daemon) error {
	if err := d.awaitPool(ctx); err != nil {
		return err
	}
	boxes := make([]sandbox, report.BurstN)
	made := closedLoop(ctx, report.BurstN, budget{n: report.BurstN}, func(ctx context.Context, i int) (time.Time, error) {
		box, err := d.create(ctx)
		if err == nil {
			boxes[i] = box
		}
		return time.Now(), err
	})
	s.results.Burst = append(s.results.Burst, report.Load{Subject: report.Pooled, What: "create", Level: report.BurstN, N: report.BurstN, Outcome: made})
	return destroyAll(ctx, boxes, report.TogetherWorkers)
}

// awaitPool waits until the pool is full.
func (d *daemon) awaitPool(ctx context.Context) error {
	return service.WaitFor(ctx, time.Minute, func(ctx context.Context) error {
		var status struct {
			Ready int `json:"ready"`
		}
		if err := d.call(ctx, http.MethodGet, "/v1/pool/status", nil, &status); err != nil {
			return err
		}
		if status.Ready < report.BurstN {
			return fmt.Errorf("%d of %d sandboxes are ready", status.Ready, report.BurstN)
		}
		return nil
	})
}

// stopPooled stops a daemon with a pool. What is ready would outlive it: one
// without a pool removes that.
func (d *daemon) stopPooled(ctx context.Context) error {
	return errors.Join(d.stop(ctx), d.configure(""), d.start(ctx), d.stop(ctx))
}
