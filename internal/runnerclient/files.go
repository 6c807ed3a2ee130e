package runnerclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/tracing"
	"github.com/sandkasten/sandkasten/protocol"
)

// Read opens a file. The reader yields exactly what was asked for, ends with
// io.EOF, and must be closed.
func (c *Client) Read(ctx context.Context, r protocol.Read) (protocol.FileInfo, io.ReadCloser, error) {
	var none protocol.FileInfo
	k, err := c.request(ctx, protocol.TypeRead, r)
	if err != nil {
		return none, nil, err
	}
	h, err := k.next(protocol.TypeFile)
	if err != nil {
		return none, nil, err
	}
	var info protocol.FileInfo
	if err := h.Decode(&info); err != nil {
		return none, nil, k.fail(err)
	}
	if err := checkFile(&info); err != nil {
		return none, nil, k.fail(err)
	}
	if r.MaxBytes > 0 && h.Bytes > r.MaxBytes && !protection.Off(protection.RunnerFiles) {
		return none, nil, k.violation("%d bytes of a file instead of at most %d", h.Bytes, r.MaxBytes)
	}
	info.Name = r.Path
	return info, &content{call: k, left: h.Bytes}, nil
}

// content is the payload of a file's frame.
type content struct {
	call *call
	left int64
	err  error // what ended it
}

func (f *content) Read(p []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	if f.left == 0 {
		if f.err = f.call.done(); f.err == nil {
			f.err = io.EOF
		}
		return 0, f.err
	}
	if err := f.call.SetReadDeadline(time.Now().Add(stallTimeout)); err != nil {
		f.err = f.call.fail(err)
		return 0, f.err
	}
	n, err := f.call.r.Read(p)
	f.left -= int64(n)
	if err != nil {
		f.err = f.call.fail(err)
		return n, f.err
	}
	return n, nil
}

// Close ends the transfer where it is.
func (f *content) Close() error {
	if f.err == nil {
		f.err = errClosed
		f.call.abort()
	}
	return nil
}

var errClosed = errors.New("read after Close")

// Write makes, replaces or extends a file with the next size bytes of src. If
// src ends early or fails, its error is returned and the file stays as it was,
// unless it was to be extended.
func (c *Client) Write(ctx context.Context, w protocol.Write, size int64, src io.Reader) error {
	w.Tag = false
	k, err := c.upload(ctx, protocol.TypeWrite, w, size, src)
	if err != nil {
		return err
	}
	if _, err := k.next(protocol.TypeOK); err != nil {
		return err
	}
	return k.done()
}

// WriteTagged is Write, and describes the file as it was written, with its tag.
func (c *Client) WriteTagged(ctx context.Context, w protocol.Write, size int64, src io.Reader) (info protocol.FileInfo, err error) {
	w.Tag = true
	k, err := c.upload(ctx, protocol.TypeWrite, w, size, src)
	if err != nil {
		return info, err
	}
	h, err := k.next(protocol.TypeInfo)
	if err != nil {
		return info, err
	}
	if err := h.Decode(&info); err != nil {
		return info, k.fail(err)
	}
	if err := checkFile(&info); err != nil {
		return info, k.fail(err)
	}
	info.Name = w.Path
	return info, k.done()
}

// upload sends a request whose payload is the next size bytes of src, and waits
// for the first frame of the answer.
func (c *Client) upload(ctx context.Context, t protocol.Type, req any, size int64, src io.Reader) (*call, error) {
	body := &source{Reader: src}
	send := func(k *call) error {
		k.span.Name(tracing.Runner, string(t))
		err := k.w.SendFrom(t, req, size, body)
		if deadlineErr := k.SetReadDeadline(time.Now().Add(workTimeout)); deadlineErr != nil {
			return deadlineErr
		}
		if err != nil && body.refused(err) {
			return nil // the runner's answer says why
		}
		return err
	}
	k, err := c.begin(ctx, send, func() bool { return !body.started })
	if body.err != nil {
		return nil, fmt.Errorf("read what is to be written: %w", body.err)
	}
	return k, err
}

// source remembers whether it was read, and its own error.
type source struct {
	io.Reader
	started bool
	err     error
}

func (s *source) Read(p []byte) (int, error) {
	s.started = true
	n, err := s.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// refused reports whether sending s failed, with err, because the runner
// stopped reading, and not because of s.
func (s *source) refused(err error) bool {
	if s.err == nil && errors.Is(err, io.ErrUnexpectedEOF) {
		s.err = err // it ended before its size
	}
	return s.err == nil && s.started
}
