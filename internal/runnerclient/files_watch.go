package runnerclient

import (
	"context"
	"sync"
	"time"

	"github.com/sandkasten/sandkasten/protocol"
)

// Watching tells the changes below a directory. Next may run while Close is
// called.
type Watching struct {
	call   *call
	cancel context.CancelCauseFunc
	once   sync.Once
}

// Watch begins to watch a directory and returns when all later changes will be
// told. It ends with ctx or Close.
func (c *Client) Watch(ctx context.Context, w protocol.Watch) (*Watching, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(answerTimeout, func() { cancel(errNoAnswer) })
	defer timer.Stop()
	k, err := c.request(ctx, protocol.TypeWatch, w)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	watching := &Watching{call: k, cancel: cancel}
	first, err := watching.Next()
	if err == nil && first.Op != "ready" {
		err = k.violation("its first change is %q", first.Op)
	}
	if err != nil {
		cancel(nil)
		return nil, err
	}
	return watching, nil
}

// Next waits for a change. The first error is the end.
func (w *Watching) Next() (protocol.Change, error) {
	h, err := w.call.next(protocol.TypeChange)
	if err != nil {
		return protocol.Change{}, err
	}
	var c protocol.Change
	if err := h.Decode(&c); err != nil {
		return protocol.Change{}, w.call.fail(err)
	}
	if err := checkChange(&c); err != nil {
		return protocol.Change{}, w.call.fail(err)
	}
	return c, nil
}

// Close ends the watch. Next then fails.
func (w *Watching) Close() error {
	var err error
	w.once.Do(func() {
		w.call.stop()
		w.cancel(nil)
		err = w.call.Close()
	})
	return err
}
