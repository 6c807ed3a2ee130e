package api

import (
	"context"
	"runtime"

	"github.com/sandkasten/sandkasten/internal/admission/fairqueue"
)

// newWork returns the queue for what keeps a processor busy for a request: decoding a large
// body, making a list and encoding it. One owner leaves a processor to all other requests,
// which would wait at each of their steps until the scheduler takes one from such work,
// 10 ms later.
func newWork() *fairqueue.Queue {
	processors := runtime.GOMAXPROCS(0)
	return fairqueue.New(processors, processors-1)
}

// BeginTurn waits until it is the turn of the caller's owner to have the daemon work for the
// request of ctx. The turn ends with EndTurn, or when the answer has been encoded: it may
// not last while the client or a program is waited for.
func BeginTurn(ctx context.Context) error {
	req := From(ctx)
	if req.work == nil || req.inTurn {
		return nil
	}
	err := req.work.Enter(ctx, req.Principal.Owner)
	req.inTurn = err == nil
	return err
}

// EndTurn ends the turn of a request that has one.
func EndTurn(ctx context.Context) {
	req := From(ctx)
	if req.inTurn {
		req.inTurn = false
		req.work.Leave(req.Principal.Owner)
	}
}
