package runnerclient

import (
	"context"
	"errors"
	"io"
	"math"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/protocol"
)

// Ping asks the runner for its version and refuses one that this build does
// not speak with Unimplemented.
func (c *Client) Ping(ctx context.Context) error {
	var pong protocol.Pong
	if err := c.ask(ctx, protocol.TypePing, nil, protocol.TypePong, &pong); err != nil {
		return err
	}
	if pong.Version != protocol.Version {
		return errdefs.New(errdefs.Unimplemented, "the sandbox's runner speaks version %d, this daemon %d", pong.Version, protocol.Version)
	}
	return nil
}

// Exec runs command with stdin and writes its output to out as it comes.
// e.CommandBytes is filled in. When the connection breaks, it attaches again
// once and goes on where it was, so the command runs once and its output comes
// once. When out fails or ctx is done the command goes on.
func (c *Client) Exec(ctx context.Context, e protocol.Exec, command string, stdin []byte, out io.Writer) (protocol.Record, error) {
	e.CommandBytes = int64(len(command))
	payload := make([]byte, 0, len(command)+len(stdin))
	payload = append(append(payload, command...), stdin...)
	f := following{id: e.ID, out: out}
	send := func(k *call) error { return k.w.Send(protocol.TypeExec, e, payload) }

	record, err := c.follow(ctx, &f, send)
	if !errors.Is(err, ErrLost) {
		return record, err
	}
	again, againErr := c.attach(ctx, &f)
	if f.next == 0 && errdefs.Is(againErr, errdefs.NotFound) {
		return c.follow(ctx, &f, send) // the runner never had it
	}
	if errors.Is(againErr, ErrUnreachable) {
		return record, err // what counts is that the command's end is not known
	}
	return again, againErr
}

// Attach writes an exec's output from offset on to out, and follows it to its
// end. Where output was dropped, an out that has a method Skip(n int64) is told
// how many bytes before it gets those behind the gap.
func (c *Client) Attach(ctx context.Context, id string, offset int64, out io.Writer) (protocol.Record, error) {
	return c.attach(ctx, &following{id: id, next: offset, out: out})
}

func (c *Client) attach(ctx context.Context, f *following) (protocol.Record, error) {
	return c.follow(ctx, f, func(k *call) error {
		return k.w.Send(protocol.TypeAttach, protocol.Attach{ID: f.id, Offset: f.next}, nil)
	})
}

// following is the state of somebody who follows an exec.
type following struct {
	id   string
	next int64 // offset of the next byte
	out  io.Writer
}

// follow sends a request that output and a record answer. It leaves it to the
// caller to repeat the request.
func (c *Client) follow(ctx context.Context, f *following, send func(*call) error) (protocol.Record, error) {
	k, err := c.begin(ctx, send, func() bool { return false })
	if err != nil {
		return protocol.Record{}, err
	}
	defer k.abort()
	for {
		h, err := k.next(protocol.TypeOutput, protocol.TypeDone)
		if err != nil {
			return protocol.Record{}, err
		}
		if h.Type == protocol.TypeDone {
			return k.record(h, f.id)
		}
		var o protocol.Output
		if err := h.Decode(&o); err != nil {
			return protocol.Record{}, k.fail(err)
		}
		if o.Offset < f.next || o.Offset > math.MaxInt64-h.Bytes {
			return protocol.Record{}, k.violation("output at offset %d after %d", o.Offset, f.next)
		}
		if gap, ok := f.out.(interface{ Skip(n int64) }); ok && o.Offset > f.next {
			gap.Skip(o.Offset - f.next)
		}
		if err := k.copyPayload(f.out, h.Bytes); err != nil {
			return protocol.Record{}, err
		}
		f.next = o.Offset + h.Bytes
	}
}

// record reads a final frame that holds the record of the exec called id.
func (k *call) record(h protocol.Header, id string) (protocol.Record, error) {
	var r protocol.Record
	if err := h.Decode(&r); err != nil {
		return protocol.Record{}, k.fail(err)
	}
	if r.ID != id || r.State != protocol.StateEnded {
		return protocol.Record{}, k.violation("record %q in state %q as the end of %q", clip(r.ID, 64), clip(string(r.State), 64), id)
	}
	if err := checkRecord(&r); err != nil {
		return protocol.Record{}, k.fail(err)
	}
	return r, k.done()
}

// Cancel ends an exec the way a timeout does. It returns NotFound if the
// runner does not know it.
func (c *Client) Cancel(ctx context.Context, id string) error {
	return c.ask(ctx, protocol.TypeCancel, protocol.Cancel{ID: id}, protocol.TypeOK, nil)
}

// Execs lists the execs that the runner remembers, oldest first.
func (c *Client) Execs(ctx context.Context) ([]protocol.Record, error) {
	var list protocol.Records
	if err := c.ask(ctx, protocol.TypeExecs, nil, protocol.TypeRecords, &list); err != nil {
		return nil, err
	}
	for i := range list.Execs {
		if err := checkRecord(&list.Execs[i]); err != nil {
			return nil, err
		}
	}
	return list.Execs, nil
}
