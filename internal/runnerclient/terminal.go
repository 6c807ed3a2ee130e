package runnerclient

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/sandkasten/sandkasten/protocol"
)

// Terminal is an interactive program on a PTY in the sandbox. One goroutine
// may read while others write and resize.
type Terminal struct {
	id     string
	call   *call
	closed func()

	left   int64 // of the data frame being read; the reader's own
	record protocol.Record
	err    error // how reading ended; the reader's own

	mu sync.Mutex // held while a frame is sent
}

// Terminal opens a terminal. It returns before the program has started: what
// keeps it from starting is the error of the first Read. The caller closes the
// terminal; when ctx is done it closes by itself. onClose, which may be nil,
// is called once by Close.
func (c *Client) Terminal(ctx context.Context, t protocol.Terminal, onClose func()) (*Terminal, error) {
	k, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	err = k.w.Send(protocol.TypeTerminal, t, nil)
	if err != nil && k.reused { // an idle connection that died; nothing was asked of the runner
		k.abort()
		if err := c.closeIdle(); err != nil {
			return nil, k.fail(err)
		}
		if k, err = c.open(ctx); err != nil {
			return nil, err
		}
		err = k.w.Send(protocol.TypeTerminal, t, nil)
	}
	if err != nil {
		return nil, k.fail(err)
	}
	if onClose == nil {
		onClose = func() {}
	}
	return &Terminal{id: t.ID, call: k, closed: sync.OnceFunc(onClose)}, nil
}

// Read returns what the terminal shows, and io.EOF when the program has ended.
func (t *Terminal) Read(p []byte) (int, error) {
	for t.left == 0 && t.err == nil {
		t.err = t.nextFrame()
	}
	if t.err != nil {
		return 0, t.err
	}
	n, err := t.call.r.Read(p)
	t.left -= int64(n)
	if err != nil {
		t.err = t.call.fail(err)
	}
	return n, t.err
}

func (t *Terminal) nextFrame() error {
	h, err := t.call.next(protocol.TypeData, protocol.TypeExit, protocol.TypeError)
	if err != nil {
		return err
	}
	switch h.Type {
	case protocol.TypeData:
		t.left = h.Bytes
		return nil
	case protocol.TypeError:
		refusal, err := decodeError(h)
		if err != nil {
			return t.call.fail(err)
		}
		return refusal
	}
	if err := h.Decode(&t.record); err != nil {
		return t.call.fail(err)
	}
	if err := checkRecord(&t.record); err != nil {
		return t.call.fail(err)
	}
	return io.EOF
}

// Write types p.
func (t *Terminal) Write(p []byte) (int, error) {
	written := 0
	for len(p) > 0 {
		part := p[:min(len(p), protocol.MaxPayload)]
		if err := t.send(protocol.TypeData, nil, part); err != nil {
			return written, err
		}
		written += len(part)
		p = p[len(part):]
	}
	return written, nil
}

// Resize tells the program the size of its window.
func (t *Terminal) Resize(rows, cols uint16) error {
	return t.send(protocol.TypeResize, protocol.Resize{Rows: rows, Cols: cols}, nil)
}

// send does not end the call when it fails: a program that has just ended
// reads nothing, and its record may still be on its way.
func (t *Terminal) send(typ protocol.Type, body any, payload []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.call.w.Send(typ, body, payload); err != nil {
		return errors.Join(ErrLost, err)
	}
	return nil
}

// Wait discards what has not been read and returns the record of the program
// when it has ended. It is not for use beside Read.
func (t *Terminal) Wait() (protocol.Record, error) {
	if _, err := io.Copy(io.Discard, t); err != nil {
		return protocol.Record{}, err
	}
	return t.record, nil
}

// Close hangs up: the program gets SIGHUP if it still runs. It may be called
// at any time and more than once.
func (t *Terminal) Close() error {
	t.call.stop()
	err := t.call.Close()
	t.closed()
	return err
}
