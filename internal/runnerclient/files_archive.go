package runnerclient

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/sandkasten/sandkasten/protocol"
)

// Pack opens a directory or file as an archive. The reader ends with io.EOF
// when the archive is whole, with the runner's refusal if it failed underway,
// and must be closed.
func (c *Client) Pack(ctx context.Context, p protocol.Pack) (io.ReadCloser, error) {
	k, err := c.request(ctx, protocol.TypePack, p)
	if err != nil {
		return nil, err
	}
	r := &packed{call: k}
	if err := r.advance(); err != nil { // what is refused is refused here
		return nil, err
	}
	if r.whole {
		return nil, fmt.Errorf("%w: an archive without a byte", ErrProtocol)
	}
	return r, nil
}

// packed is the bytes of a pack's frames.
type packed struct {
	call  *call
	left  int64
	whole bool
	err   error // what ended it
}

func (p *packed) Read(b []byte) (int, error) {
	for p.err == nil && p.left == 0 {
		if p.err = p.advance(); p.whole {
			p.err = io.EOF
		}
	}
	if p.err != nil {
		return 0, p.err
	}
	n, err := p.call.r.Read(b[:min(int64(len(b)), p.left)])
	p.left -= int64(n)
	if err != nil {
		p.err = p.call.fail(err)
	}
	return n, p.err
}

// advance goes on to the next frame, or to the end. A runner with nothing to
// send yet sends empty frames.
func (p *packed) advance() error {
	if err := p.call.SetReadDeadline(time.Now().Add(stallTimeout)); err != nil {
		return p.call.fail(err)
	}
	h, err := p.call.next(protocol.TypeBytes, protocol.TypeOK)
	switch {
	case err != nil:
		return err
	case h.Type == protocol.TypeBytes:
		p.left = h.Bytes
		return nil
	}
	if err := p.call.done(); err != nil {
		return err
	}
	p.whole = true
	return nil
}

// Close ends the transfer where it is.
func (p *packed) Close() error {
	if p.err == nil {
		p.err = errClosed
		p.call.abort()
	}
	return nil
}

// Unpack extracts the next size bytes of archive into a directory. What was
// extracted before a failure stays.
func (c *Client) Unpack(ctx context.Context, u protocol.Unpack, size int64, archive io.Reader) (protocol.Unpacked, error) {
	k, err := c.upload(ctx, protocol.TypeUnpack, u, size, archive)
	if err != nil {
		return protocol.Unpacked{}, err
	}
	h, err := k.next(protocol.TypeUnpacked)
	if err != nil {
		return protocol.Unpacked{}, err
	}
	var done protocol.Unpacked
	if err := h.Decode(&done); err != nil {
		return protocol.Unpacked{}, k.fail(err)
	}
	if done.Files < 0 || done.Bytes < 0 {
		return protocol.Unpacked{}, k.violation("%d files of %d bytes", done.Files, done.Bytes)
	}
	return done, k.done()
}
