package snapshot

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images/extract"
	"github.com/sandkasten/sandkasten/internal/protection"
)

const (
	manifestName = "manifest.json"
	partSuffix   = ".tar.zst"
	maxManifest  = 1 << 20
	maxPadding   = 64 << 10 // behind the end of a tar file
)

// Write writes an archive. The parts are read to their ends and must be those
// of the manifest, in its order.
func Write(w io.Writer, m Manifest, parts ...io.Reader) error {
	text, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode the manifest: %w", err)
	}
	out := tar.NewWriter(w)
	if err := write(out, m, manifestName, int64(len(text)), bytes.NewReader(text)); err != nil {
		return err
	}
	for i, p := range m.Parts {
		if err := write(out, m, string(p.Name)+partSuffix, p.Size, parts[i]); err != nil {
			return err
		}
	}
	return out.Close()
}

// WriteGzip is Write with the archive in a gzip file. Its parts are compressed
// already, so it only stores them.
func WriteGzip(w io.Writer, m Manifest, parts ...io.Reader) error {
	z, err := gzip.NewWriterLevel(w, gzip.NoCompression)
	if err != nil {
		return err
	}
	if err := Write(z, m, parts...); err != nil {
		return err
	}
	return z.Close()
}

func write(out *tar.Writer, m Manifest, name string, size int64, r io.Reader) error {
	if err := out.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: size, ModTime: m.CreatedAt.Truncate(time.Second), Format: tar.FormatPAX}); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if _, err := io.Copy(out, r); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// Reader reads an archive from its beginning to its end. Its errors are
// Unprocessable for what no archive of ours is, and those of the reader below.
type Reader struct {
	Manifest Manifest // nothing of it is proven before Next has returned io.EOF

	in   io.Reader
	tar  *tar.Reader
	next int
	last *partReader
}

// NewReader reads as far as the end of the manifest. The archive may be in a gzip
// file.
func NewReader(r io.Reader) (*Reader, error) {
	r, err := inflate(r)
	if err != nil {
		return nil, err
	}
	a := &Reader{in: r, tar: tar.NewReader(r)}
	size, err := a.entry(manifestName)
	if err != nil {
		return nil, err
	}
	if size > maxManifest {
		return nil, errdefs.New(errdefs.TooLarge, "the snapshot is refused: its manifest has more than %d bytes", maxManifest)
	}
	text, err := io.ReadAll(a.tar)
	if err != nil {
		return nil, readError(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&a.Manifest); err != nil {
		return nil, refused("its manifest cannot be read")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, refused("its manifest cannot be read")
	}
	return a, a.Manifest.check()
}

// inflate reads what is in a gzip file, or what there is instead.
func inflate(r io.Reader) (io.Reader, error) {
	const magic = "\x1f\x8b"
	buffered := bufio.NewReader(r)
	start, err := buffered.Peek(len(magic))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, readError(err)
	}
	if string(start) != magic {
		return buffered, nil
	}
	z, err := gzip.NewReader(buffered)
	if err != nil {
		return nil, readError(err)
	}
	return z, nil
}

// entry goes on to the next entry, which must have that name.
func (a *Reader) entry(name string) (size int64, err error) {
	h, err := a.tar.Next()
	if errors.Is(err, io.EOF) {
		return 0, refused("it ends before %s", name)
	}
	if err != nil {
		return 0, readError(err)
	}
	if h.Typeflag != tar.TypeReg || h.Name != name {
		return 0, refused("it has something else in the place of %s", name)
	}
	return h.Size, nil
}

// Next returns the next part, to be read before the following call. The reader
// ends with an error instead of io.EOF if the part is not the one that the
// manifest names. Behind the last part Next returns io.EOF, when nothing
// follows and every part was right.
func (a *Reader) Next() (Part, io.Reader, error) {
	if a.last != nil {
		if _, err := io.Copy(io.Discard, a.last); err != nil {
			return Part{}, nil, err
		}
	}
	if a.next == len(a.Manifest.Parts) {
		return Part{}, nil, a.end()
	}
	p := a.Manifest.Parts[a.next]
	size, err := a.entry(string(p.Name) + partSuffix)
	if err != nil {
		return Part{}, nil, err
	}
	if size != p.Size {
		return Part{}, nil, refused("its part %s has another size than its manifest says", p.Name)
	}
	a.next++
	a.last = &partReader{in: a.tar, part: p, sum: sha256.New()}
	return p, a.last, nil
}

// end returns io.EOF if only padding is left.
func (a *Reader) end() error {
	switch _, err := a.tar.Next(); {
	case err == nil:
		return refused("it has more than its manifest says")
	case !errors.Is(err, io.EOF):
		return readError(err)
	}
	rest, err := io.ReadAll(io.LimitReader(a.in, maxPadding+1))
	if err != nil {
		return readError(err)
	}
	if len(rest) > maxPadding || len(bytes.TrimRight(rest, "\x00")) > 0 {
		return refused("data follows its end")
	}
	return io.EOF
}

// partReader checks a part while it is read.
type partReader struct {
	in   io.Reader
	part Part
	sum  hash.Hash
}

func (r *partReader) Read(p []byte) (int, error) {
	n, err := r.in.Read(p)
	r.sum.Write(p[:n])
	switch {
	case errors.Is(err, io.EOF) && hex.EncodeToString(r.sum.Sum(nil)) != r.part.SHA256:
		return n, refused("its part %s is damaged", r.part.Name)
	case err != nil && !errors.Is(err, io.EOF):
		return n, readError(err)
	}
	return n, err
}

// readError tells a bad archive from a reader that failed.
func readError(err error) error {
	_, corrupt := errors.AsType[flate.CorruptInputError](err)
	if corrupt || errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, tar.ErrHeader) || errors.Is(err, tar.ErrFieldTooLong) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errdefs.Wrap(err, errdefs.Unprocessable, "the snapshot is refused: it is cut off, damaged or no snapshot")
	}
	return err
}

// Limits bounds the files in an archive.
type Limits struct {
	Bytes   int64 // of all files together, holes included
	Entries int64
}

// Scan reads a part to its end, and returns what is in it. It refuses what is
// hostile or over the limits.
func Scan(ctx context.Context, part io.Reader, l Limits) (entries, bytes int64, err error) {
	limits := extract.DefaultLimits()
	limits.Bytes, limits.Entries = l.Bytes+l.Entries*maxHeader, protection.Wider(protection.SnapshotBound, l.Entries, 2)
	limits.Ratio = 1 << 20 // a file of zeros is as small as it gets
	found, err := extract.Scan(ctx, part, extract.Options{Kind: extract.Layer, Limits: limits})
	switch {
	case err != nil:
		return 0, 0, err
	case found.Bytes > l.Bytes:
		return 0, 0, errdefs.New(errdefs.TooLarge, "the files have %d bytes, holes included; %d is the limit of a snapshot", found.Bytes, l.Bytes)
	}
	return found.Entries, found.Bytes, nil
}

// maxHeader is what an entry takes in a tar file beside its bytes.
const maxHeader = 4 << 10
