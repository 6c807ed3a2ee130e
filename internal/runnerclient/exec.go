package runnerclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/protocol"
)

// Ping asks the runner for its versions and refuses one that speaks none of this
// build's with Unimplemented. Until a later Ping finds otherwise every operation
// is refused so.
func (c *Client) Ping(ctx context.Context) error {
	c.refused.Store(nil)
	var pong protocol.Pong
	if err := c.ask(ctx, protocol.TypePing, nil, protocol.TypePong, &pong); err != nil {
		return err
	}
	if _, ok := pong.Agree(); !ok {
		err := errdefs.New(errdefs.Unimplemented, "the runner of this session is of another version of sandkasten: it speaks version %s of the protocol, and this daemon %s; "+
			"run that version, or stop and start the session, which ends its processes, keeps its files and gives it a runner of this version",
			versions(pong.Min, pong.Version), versions(protocol.MinVersion, protocol.Version))
		c.refused.Store(err)
		return err
	}
	return nil
}

// CheckUser refuses a request about files with the rights of user, unless that is
// "", where the runner would do it with all rights: one from before it knew of users.
func (c *Client) CheckUser(ctx context.Context, user string) error {
	if user == "" {
		return nil
	}
	return c.need(ctx, "user of file requests", func(p protocol.Pong) bool { return p.FileUsers })
}

// need refuses what an older runner would not do, and would not refuse either.
func (c *Client) need(ctx context.Context, what string, has func(protocol.Pong) bool) error {
	var pong protocol.Pong
	if err := c.ask(ctx, protocol.TypePing, nil, protocol.TypePong, &pong); err != nil {
		return err
	}
	if !has(pong) {
		return errdefs.New(errdefs.Unimplemented, "the runner of this session is of an older version of sandkasten, which knows no %s; stop and start the session, which keeps its files", what)
	}
	return nil
}

// versions is a range for people.
func versions(oldest, newest int) string {
	if oldest == 0 || oldest == newest {
		return strconv.Itoa(newest)
	}
	return fmt.Sprintf("%d to %d", oldest, newest)
}

// A Sink is a writer of an exec's output that is told where its bytes come
// from.
type Sink interface {
	io.Writer
	// At says of the bytes to be written next which stream they are of and the
	// offset of the first in all that the exec wrote. Where that is not the end
	// of what was written before, the bytes between were dropped.
	At(stream protocol.Stream, offset int64)
}

// A Witness is a writer of an exec's output that is told when the runner has the
// exec, once and before its output. From then on Attach finds it.
type Witness interface {
	io.Writer
	Accepted(execID string)
}

// Exec runs command with stdin and writes its output to out, which may be a
// Sink and a Witness, as it comes. e.CommandBytes is filled in. When the connection breaks,
// it attaches again once and goes on where it was, so the command runs once and
// its output comes once. When out fails or ctx is done the command goes on.
func (c *Client) Exec(ctx context.Context, e protocol.Exec, command string, stdin []byte, out io.Writer) (protocol.Record, error) {
	if e.OpenStdin {
		if err := c.need(ctx, "open_stdin of a shell's command", func(p protocol.Pong) bool { return p.ExecStdin }); err != nil {
			return protocol.Record{}, err
		}
	}
	e.CommandBytes = int64(len(command))
	payload := make([]byte, 0, len(command)+len(stdin))
	payload = append(append(payload, command...), stdin...)
	f := following{id: e.ID, out: out}
	f.witness, e.Accept = out.(Witness)
	return c.run(ctx, &f, func(k *call) error { return k.send(protocol.TypeExec, e, payload) })
}

// run sends a request that starts something, and follows it to its end. Where the
// end is not known the record says how much came.
func (c *Client) run(ctx context.Context, f *following, send func(*call) error) (protocol.Record, error) {
	record, err := c.follow(ctx, f, send, never)
	if !errors.Is(err, ErrLost) || ctx.Err() != nil {
		return record, err
	}
	again, againErr := c.attach(ctx, f)
	// A runner that cannot be reached answers NotFound too: it has not lost the
	// command, the sandbox is gone.
	if f.next == 0 && errdefs.Is(againErr, errdefs.NotFound) && !errors.Is(againErr, ErrUnreachable) {
		again, againErr = c.follow(ctx, f, send, never) // the runner never had it
	}
	if errors.Is(againErr, ErrUnreachable) {
		return record, err // what counts is that the command's end is not known
	}
	return again, againErr
}

// Attach writes an exec's output from offset on to out, which may be a Sink,
// and follows it to its end. Where the end is not known the record says how much
// came.
func (c *Client) Attach(ctx context.Context, id string, offset int64, out io.Writer) (protocol.Record, error) {
	return c.attach(ctx, &following{id: id, next: offset, out: out})
}

func (c *Client) attach(ctx context.Context, f *following) (protocol.Record, error) {
	send := func(k *call) error {
		return k.send(protocol.TypeAttach, protocol.Attach{ID: f.id, Offset: f.next}, nil)
	}
	return c.follow(ctx, f, send, never)
}

// following is the state of somebody who follows an exec.
type following struct {
	id   string
	next int64 // offset of the next byte
	out  io.Writer
	poll bool  // the final record may be of an exec that goes on
	most int64 // bytes that may come; 0 is any number
	came int64 // bytes
	buf  []byte

	witness Witness // nil if nobody waits to be told
}

// follow sends a request that output and a record answer.
func (c *Client) follow(ctx context.Context, f *following, send func(*call) error, repeatable func() bool) (protocol.Record, error) {
	k, err := c.begin(ctx, send, repeatable)
	if err != nil {
		return protocol.Record{OutputBytes: f.next}, err
	}
	defer k.abort()
	for {
		h, err := k.next(protocol.TypeOutput, protocol.TypeDone, protocol.TypeAccepted)
		if err != nil {
			return protocol.Record{OutputBytes: f.next}, err
		}
		if h.Type == protocol.TypeAccepted && f.witness == nil {
			return protocol.Record{}, k.violation("it accepted what it was not asked to, or twice")
		}
		if f.witness != nil { // an older runner's first output says the same
			f.witness.Accepted(f.id)
			f.witness = nil
		}
		if h.Type == protocol.TypeAccepted {
			continue
		}
		if h.Type == protocol.TypeDone {
			r, err := k.record(h, f.id)
			if err != nil {
				return protocol.Record{}, err
			}
			if !f.poll && r.State != protocol.StateEnded {
				return protocol.Record{}, k.violation("a record in state %q as the end", r.State)
			}
			return r, k.done()
		}
		if err := k.output(h, f); err != nil {
			return protocol.Record{OutputBytes: f.next}, err
		}
	}
}

// output passes on one frame of output.
func (k *call) output(h protocol.Header, f *following) error {
	var o protocol.Output
	if err := h.Decode(&o); err != nil {
		return k.fail(err)
	}
	if o.Offset < f.next || o.Offset > math.MaxInt64-h.Bytes {
		return k.violation("output at offset %d after %d", o.Offset, f.next)
	}
	if f.came += h.Bytes; f.most > 0 && f.came > f.most {
		return k.violation("%d bytes of output instead of at most %d", f.came, f.most)
	}
	switch o.Stream {
	case protocol.StreamOutput, protocol.StreamStdout, protocol.StreamStderr:
	default:
		return k.violation("output of stream %q", clip(string(o.Stream), maxName))
	}
	// Whole frames only: what is written of a frame that breaks off would come
	// again after it, and each write may become an event of its own.
	f.buf = slices.Grow(f.buf[:0], int(h.Bytes))[:h.Bytes]
	if _, err := io.ReadFull(k.r, f.buf); err != nil {
		return k.fail(err)
	}
	f.next = o.Offset + h.Bytes
	if sink, ok := f.out.(Sink); ok {
		sink.At(o.Stream, o.Offset)
	}
	if _, err := f.out.Write(f.buf); err != nil {
		k.abort()
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// record reads a final frame that holds the record of the exec called id.
func (k *call) record(h protocol.Header, id string) (protocol.Record, error) {
	var r protocol.Record
	if err := h.Decode(&r); err != nil {
		return protocol.Record{}, k.fail(err)
	}
	if r.ID != id {
		return protocol.Record{}, k.violation("record %q instead of %q", clip(r.ID, maxName), id)
	}
	if err := checkRecord(&r); err != nil {
		return protocol.Record{}, k.fail(err)
	}
	return r, nil
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
