package extract

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// stream is an archive's uncompressed bytes. It counts both sides of the
// decoder and stops at the limits, so a bomb costs the limit and not its size.
type stream struct {
	ctx    context.Context
	limits Limits
	in     *counter
	out    int64
	ended  bool      // the last Read met the end
	sum    hash.Hash // of what was read
	r      io.Reader
	close  func()
}

type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// openStream looks at the first bytes of r to tell plain, gzip and zstd apart.
// Names and media types do not count: they can lie. Decoding happens in this
// process; no program of the host or of the image is ever run for it.
func openStream(ctx context.Context, r io.Reader, limits Limits) (*stream, error) {
	s := &stream{ctx: ctx, limits: limits, in: &counter{r: r}, sum: sha256.New(), close: func() {}}
	head := bufio.NewReaderSize(s.in, 64<<10)
	magic, err := head.Peek(6)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, readError(err)
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(head)
		if err != nil {
			return nil, unreadableArchive(err)
		}
		s.r = z
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(head,
			zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(maxDecoderMemory),
			zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, unreadableArchive(err)
		}
		s.r, s.close = z, z.Close
	case bytes.HasPrefix(magic, []byte{0xfd, '7', 'z', 'X', 'Z'}), bytes.HasPrefix(magic, []byte("BZh")):
		return nil, errdefs.New(errdefs.Unprocessable,
			"the archive is compressed with xz or bzip2; decompress it first, or use gzip or zstd")
	default:
		s.r = head
	}
	return s, nil
}

// Read never returns bytes and the end together, so that ended says whether
// the reader above asked beyond the last byte.
func (s *stream) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := s.r.Read(p)
	s.out += int64(n)
	s.sum.Write(p[:n])
	switch {
	case s.out > s.limits.Bytes:
		return n, tooLarge("it holds more than %d bytes", s.limits.Bytes)
	case s.out > s.limits.Free && s.out > s.limits.Ratio*s.in.n:
		return n, tooLarge("it expands more than %d times", s.limits.Ratio)
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return n, tooLarge("its zstd window is over %d MiB", maxWindow>>20)
	case n > 0 && errors.Is(err, io.EOF):
		return n, nil
	}
	s.ended = errors.Is(err, io.EOF)
	return n, err
}

// drain reads what follows the archive's end. Padding is zeros; anything else
// is a second archive or garbage, which another reader might have preferred.
func (s *stream) drain() error {
	buf := make([]byte, 32<<10)
	for {
		n, err := s.Read(buf)
		if len(bytes.TrimRight(buf[:n], "\x00")) > 0 {
			return malformed("data follows its end")
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return readError(err)
		}
	}
}

// readError leaves an error alone that already says what to do, or that is the
// caller's own cancellation, and explains any other.
func readError(err error) error {
	if _, ok := errors.AsType[*errdefs.Error](err); ok {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return unreadableArchive(err)
}
