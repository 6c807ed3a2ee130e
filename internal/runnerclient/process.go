package runnerclient

import (
	"context"
	"errors"
	"io"
	"math"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/protocol"
)

// Program is what a Start runs: its payload.
type Program struct {
	Args  []string // the program's name first; none is a login shell
	Env   []string // NAME=VALUE, added to the session's
	Stdin []byte
}

// payload fills in the sizes of s. No string may have a NUL byte.
func (p Program) payload(s *protocol.Start) []byte {
	size := len(p.Stdin)
	for _, list := range [][]string{p.Args, p.Env} {
		for _, text := range list {
			size += len(text) + 1
		}
	}
	data := make([]byte, 0, size)
	data = appendStrings(data, p.Args)
	s.ArgvBytes = int64(len(data))
	data = appendStrings(data, p.Env)
	s.EnvBytes = int64(len(data)) - s.ArgvBytes
	return append(data, p.Stdin...)
}

func appendStrings(data []byte, list []string) []byte {
	for _, text := range list {
		data = append(append(data, text...), 0)
	}
	return data
}

// Run runs a program in the foreground as Exec runs a command: with one end,
// once, also when the connection breaks.
func (c *Client) Run(ctx context.Context, s protocol.Start, p Program, out io.Writer) (protocol.Record, error) {
	s.Background = false
	payload := p.payload(&s)
	f := following{id: s.ID, out: out}
	f.witness, s.Accept = out.(Witness)
	return c.run(ctx, &f, func(k *call) error { return k.send(protocol.TypeStart, s, payload) })
}

// Start starts a program and returns its record at once. When the connection
// breaks it looks whether the program runs, and starts it if the runner never
// had the request.
func (c *Client) Start(ctx context.Context, s protocol.Start, p Program) (protocol.Record, error) {
	s.Background = true
	payload := p.payload(&s)
	send := func(k *call) error { return k.send(protocol.TypeStart, s, payload) }
	r, err := c.start(ctx, s.ID, send)
	if !errors.Is(err, ErrLost) || ctx.Err() != nil {
		return r, err
	}
	again, againErr := c.Record(ctx, s.ID)
	switch {
	case againErr == nil:
		return again, nil
	case errdefs.Is(againErr, errdefs.NotFound):
		return c.start(ctx, s.ID, send)
	}
	return r, err
}

func (c *Client) start(ctx context.Context, id string, send func(*call) error) (protocol.Record, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTimeout, errNoAnswer)
	defer cancel()
	k, err := c.begin(ctx, send, never)
	if err != nil {
		return protocol.Record{}, err
	}
	defer k.abort()
	h, err := k.next(protocol.TypeStarted)
	if err != nil {
		return protocol.Record{}, err
	}
	r, err := k.record(h, id)
	if err != nil {
		return protocol.Record{}, err
	}
	return r, k.done()
}

// Poll writes what is kept of an exec's output from a.Offset on, and does not
// follow it: it waits for the first byte or the end, no longer than a.WaitMS.
// The offset is the one to go on from.
func (c *Client) Poll(ctx context.Context, a protocol.Attach, out io.Writer) (r protocol.Record, next int64, err error) {
	a.Poll = true
	wait := time.Duration(a.WaitMS)*time.Millisecond + answerTimeout
	ctx, cancel := context.WithTimeoutCause(ctx, wait, errNoAnswer)
	defer cancel()
	f := following{id: a.ID, next: a.Offset, out: out, poll: true, most: a.MaxBytes}
	r, err = c.follow(ctx, &f, func(k *call) error { return k.send(protocol.TypeAttach, a, nil) }, always)
	return r, f.next, err
}

// Record returns what the runner knows of an exec, ended or not.
func (c *Client) Record(ctx context.Context, id string) (protocol.Record, error) {
	return c.Wait(ctx, id, 0)
}

// Wait returns an exec's record when it has ended, or as it is after wait.
func (c *Client) Wait(ctx context.Context, id string, wait time.Duration) (protocol.Record, error) {
	// No output comes from so far on, so that only the end ends the wait.
	r, _, err := c.Poll(ctx, protocol.Attach{ID: id, Offset: math.MaxInt64, WaitMS: wait.Milliseconds()}, io.Discard)
	if err != nil {
		return protocol.Record{}, err
	}
	return r, nil
}

// Stdin types data into a program whose stdin is open, and ends its stdin
// behind it if s.Close is set. Bytes that the program did not take within
// s.WaitMS are not delivered.
func (c *Client) Stdin(ctx context.Context, s protocol.Stdin, data []byte) (protocol.Taken, error) {
	var none protocol.Taken
	wait := time.Duration(s.WaitMS)*time.Millisecond + answerTimeout
	ctx, cancel := context.WithTimeoutCause(ctx, wait, errNoAnswer)
	defer cancel()
	// Not twice: some of it may have been taken.
	k, err := c.begin(ctx, func(k *call) error { return k.send(protocol.TypeStdin, s, data) }, never)
	if err != nil {
		return none, err
	}
	defer k.abort()
	h, err := k.next(protocol.TypeTaken)
	if err != nil {
		return none, err
	}
	var t protocol.Taken
	if err := h.Decode(&t); err != nil {
		return none, k.fail(err)
	}
	if t.Bytes < 0 || t.Bytes > int64(len(data)) {
		return none, k.violation("it took %d bytes of %d", t.Bytes, len(data))
	}
	return t, k.done()
}

// Signal sends a signal to a program or to what a shell's command started.
func (c *Client) Signal(ctx context.Context, id string, signal int) error {
	return c.ask(ctx, protocol.TypeSignal, protocol.Signal{ID: id, Signal: signal}, protocol.TypeOK, nil)
}

// Resize gives a program's terminal a size.
func (c *Client) Resize(ctx context.Context, size protocol.Resize) error {
	return c.ask(ctx, protocol.TypeResize, size, protocol.TypeOK, nil)
}

// Shells lists the shells by name.
func (c *Client) Shells(ctx context.Context) ([]protocol.ShellInfo, error) {
	var list protocol.ShellList
	if err := c.ask(ctx, protocol.TypeShells, nil, protocol.TypeShellList, &list); err != nil {
		return nil, err
	}
	for i := range list.Shells {
		if err := checkShell(&list.Shells[i]); err != nil {
			return nil, err
		}
	}
	return list.Shells, nil
}

// CloseShell ends a shell and all that it started. It returns NotFound if
// there is none of that name.
func (c *Client) CloseShell(ctx context.Context, name string) error {
	return c.ask(ctx, protocol.TypeCloseShell, protocol.CloseShell{Name: name}, protocol.TypeOK, nil)
}
