package main

import (
	"context"
	"errors"

	"github.com/sandkasten/sandkasten/test/bench/report"
)

// networkedSubject makes sessions that have a network.
type networkedSubject struct {
	*daemon

	label string
}

func (n *networkedSubject) name() string { return n.label }

func (n *networkedSubject) create(ctx context.Context) (sandbox, error) {
	return n.createAnswering(ctx, object{"network": object{"mode": "allow", "allow": []string{"example.org"}}})
}

// network measures what a network adds to a create, and to a claim of a ready sandbox.
// What passes through it is measured by the benchmarks of internal/network/relay.
func (s *suite) network(ctx context.Context) (err error) {
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
	measured, err := interleave(ctx, s.rng, []contestant{
		lifecycle(&sandkastenSubject{s.daemon}, 1), lifecycle(&networkedSubject{s.daemon, report.Networked}, 1),
		lifecycle(&pooledSubject{sandkastenSubject{d}}, 1), lifecycle(&networkedSubject{d, report.PooledNetworked}, 1),
	}, 3, s.rounds(report.BurstN/2-5)) // fewer than are ready
	s.results.Network = measured["ready"]
	return err
}
