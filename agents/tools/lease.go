package tools

import (
	"context"
	"fmt"
	"time"

	"github.com/sandkasten/sandkasten/sdk/go"
)

// Lease is how long sandboxes outlive a program that ended without a word.
const Lease = 5 * time.Minute

// shortest is how long a daemon has at least to answer a sign of life.
const shortest = time.Second

// Hold keeps the sandboxes of a scope as long as the calling program lives, and the
// daemon ends them a lease (0 is Lease) after its last sign of life, of which there are
// five in one. Failed, which may be nil, is told of those that did not arrive.
//
// The caller calls release when it needs them no more, and completes the scope then:
// otherwise they end with what is left of the lease. An error is that of the first sign.
func Hold(ctx context.Context, client *sandkasten.Client, scope Scope, lease time.Duration, failed func(error)) (release func(), err error) {
	if lease <= 0 {
		lease = Lease
	}
	// One request that hangs does not cost the lease: the next one may be answered.
	renew := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, max(lease/5, shortest))
		defer cancel()
		// Sessions end at the time that the last call said.
		if _, err := client.CompleteScope(ctx, scope.String(), &sandkasten.CompleteOptions{Retention: lease}); err != nil {
			return fmt.Errorf("keep the sandboxes of %s: %w", scope, err)
		}
		return nil
	}
	if err := renew(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for wait := lease / 5; ; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
			wait = lease / 5
			if err := renew(ctx); err != nil && ctx.Err() == nil {
				wait = lease / 20
				if failed != nil {
					failed(err)
				}
			}
		}
	}()
	return func() { cancel(); <-ended }, nil
}
