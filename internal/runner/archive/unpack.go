package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"strconv"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/protocol"
)

// Unpack extracts an archive into the directory dir, which stays the caller's.
// spool is an empty file that nobody else has, for formats that are not read
// from front to end; it stays the caller's, too. Owners and extended attributes
// in the archive are ignored, set-id bits are dropped, devices, pipes and
// sockets are refused. What was extracted before a failure stays. An error of
// in is returned as it is.
//
// A snapshot is a tar file with which owners come back, too, and which may
// expand however far: a file of zeros does. One of a layer also removes.
func Unpack(dir int, f Format, how protocol.Snapshot, in io.Reader, spool int, check func() error) (protocol.Unpacked, error) {
	if err := f.Valid(); err != nil {
		return protocol.Unpacked{}, err
	}
	if how != "" && f == Zip {
		return protocol.Unpacked{}, protocol.Refuse(protocol.CodeInvalid, "a snapshot is a tar file")
	}
	src := &source{r: in}
	u := &unpacker{target: newTarget(dir, how, check), src: src, buf: make([]byte, copyBuffer)}
	defer u.close()
	var err error
	if f == Zip {
		err = u.zip(spool)
	} else {
		err = u.tar(f)
	}
	if err == nil {
		err = u.settle()
	}
	return u.done, err
}

// unpacker is one Unpack under way.
type unpacker struct {
	*target
	src   *source
	buf   []byte
	done  protocol.Unpacked
	count int // of entries
}

// grow counts bytes that come out of the archive.
func (u *unpacker) grow(n int64) error {
	switch {
	case protection.Off(protection.ArchiveBound):
	case n < 0 || n > maxBytes-u.done.Bytes:
		return tooLarge("its files have more than %d bytes", int64(maxBytes))
	case u.how == "" && u.done.Bytes+n > freeBytes && u.done.Bytes+n > maxRatio*u.src.n:
		return tooLarge("it expands more than %d times", maxRatio)
	}
	u.done.Bytes += n
	return nil
}

func (u *unpacker) next() error {
	if u.count++; u.count > maxEntries {
		return tooLarge("it has more than %d entries", maxEntries)
	}
	return u.check()
}

// file writes an entry's bytes, size of them. Blocks of zeros become holes.
func (u *unpacker) file(name string, m meta, size int64, f Format, body io.Reader) error {
	if name == "" {
		return malformed("the target itself is not a directory in it")
	}
	if size > maxBytes-u.done.Bytes {
		return tooLarge("its files have more than %d bytes", int64(maxBytes))
	}
	fd, err := u.create(name)
	if err != nil {
		return err
	}
	err = u.content(fd, f, body)
	if err == nil {
		err = u.finish(fd, m)
	}
	if cerr := unix.Close(fd); err == nil {
		err = cerr
	}
	if err == nil {
		u.done.Files++
	}
	return err
}

func (u *unpacker) content(fd int, f Format, body io.Reader) error {
	at := int64(0)
	for {
		if err := u.check(); err != nil {
			return err
		}
		n, err := body.Read(u.buf)
		if n > 0 {
			if err := u.grow(int64(n)); err != nil {
				return err
			}
			if err := put(fd, u.buf[:n], at); err != nil {
				return err
			}
			at += int64(n)
		}
		if errors.Is(err, io.EOF) {
			return unix.Ftruncate(fd, at)
		}
		if err != nil {
			return readError(err, f)
		}
	}
}

var zeros = make([]byte, 4096)

// put writes b at the offset, but for blocks of zeros.
func put(fd int, b []byte, at int64) error {
	for len(b) > 0 {
		n := min(len(b), len(zeros))
		hole := bytes.Equal(b[:n], zeros[:n])
		for n < len(b) && bytes.Equal(b[n:min(len(b), n+len(zeros))], zeros[:min(len(b)-n, len(zeros))]) == hole {
			n = min(len(b), n+len(zeros))
		}
		if !hole {
			for part, off := b[:n], at; len(part) > 0; {
				m, err := unix.Pwrite(fd, part, off)
				if err == unix.EINTR {
					continue
				}
				if err != nil {
					return err
				}
				part, off = part[m:], off+int64(m)
			}
		}
		b, at = b[n:], at+int64(n)
	}
	return nil
}

// tar unpacks a tar file as it comes.
func (u *unpacker) tar(f Format) error {
	plain, err := decoder(u.src, f)
	if err != nil {
		return readError(err, f)
	}
	defer plain.Close()
	bounded := &ratioReader{r: plain, src: u.src, any: u.how != ""}
	archive := tar.NewReader(bounded)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return readError(err, f)
		}
		if err := u.next(); err != nil {
			return err
		}
		if err := u.tarEntry(h, archive, f); err != nil {
			return err
		}
	}
	if bounded.ended {
		return malformed("it is cut off: its end mark is missing")
	}
	return drain(bounded, f)
}

func (u *unpacker) tarEntry(h *tar.Header, body io.Reader, f Format) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := cleanName(h.Name)
	if err != nil {
		return err
	}
	if gone, err := u.whiteout(name); gone || err != nil {
		return err
	}
	m, err := u.metaOf(h, name)
	if err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		return u.file(name, m, h.Size, f, body)
	case tar.TypeDir:
		return u.directory(name, m)
	case tar.TypeSymlink:
		return u.link(name, func(name, to string) error { return u.symlink(name, to, m) }, h.Linkname)
	case tar.TypeLink:
		return u.link(name, u.hardlink, h.Linkname)
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		return malformed("entry %q is a device or a pipe", name)
	}
	return malformed("entry %q has the unknown type %q", name, h.Typeflag)
}

func (u *unpacker) link(name string, make func(name, to string) error, to string) error {
	if name == "" {
		return malformed("the target itself is a link in it")
	}
	if err := make(name, to); err != nil {
		return err
	}
	u.done.Files++
	return nil
}

// decoder undoes a tar file's compression.
func decoder(in io.Reader, f Format) (io.ReadCloser, error) {
	switch f {
	case TarGzip:
		return gzip.NewReader(in)
	case TarZstd:
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(maxDecoderMemory), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	}
	return io.NopCloser(in), nil
}

// ratioReader ends a stream that expands too far.
type ratioReader struct {
	r     io.Reader
	src   *source
	any   bool // it may expand
	out   int64
	ended bool // the reader above asked beyond the last byte
}

func (r *ratioReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.out += int64(n)
	switch {
	case protection.Off(protection.ArchiveBound) && n > 0:
		return n, nil
	case r.out > maxBytes+maxEntries*1024:
		return n, tooLarge("it has more than %d bytes", int64(maxBytes))
	case !r.any && r.out > freeBytes && r.out > maxRatio*r.src.n:
		return n, tooLarge("it expands more than %d times", maxRatio)
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return n, tooLarge("its zstd window is over %d MiB", maxWindow>>20)
	case n > 0 && errors.Is(err, io.EOF):
		return n, nil
	}
	r.ended = errors.Is(err, io.EOF)
	return n, err
}

// drain reads what follows the end of a tar file. Padding is zeros; anything
// else is a second archive or garbage, which another reader might have
// preferred.
func drain(r io.Reader, f Format) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if len(bytes.TrimRight(buf[:n], "\x00")) > 0 {
			return malformed("data follows its end")
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return readError(err, f)
		}
	}
}

// zip unpacks a zip file from the spool: its directory is at its end.
func (u *unpacker) zip(spool int) error {
	size, err := u.fill(spool)
	if err != nil {
		return err
	}
	file := &spooled{fd: spool, left: maxZipDirectory}
	archive, err := zip.NewReader(file, size)
	if err != nil {
		return readError(err, Zip)
	}
	file.left = -1
	archive.RegisterDecompressor(zip.Deflate, flate.NewReader)
	for _, e := range archive.File {
		if err := u.next(); err != nil {
			return err
		}
		if err := u.zipEntry(e); err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacker) fill(spool int) (int64, error) {
	at := int64(0)
	for {
		n, err := u.src.Read(u.buf)
		if n > 0 {
			if err := put(spool, u.buf[:n], at); err != nil {
				return 0, err
			}
			at += int64(n)
		}
		if errors.Is(err, io.EOF) {
			return at, unix.Ftruncate(spool, at)
		}
		if err != nil {
			return 0, readError(err, Zip)
		}
	}
}

// spooled reads a file. Left is how much may still be read, if it is not
// negative.
type spooled struct {
	fd   int
	left int64
}

func (s *spooled) ReadAt(p []byte, at int64) (int, error) {
	if s.left >= 0 {
		if s.left -= int64(len(p)); s.left < 0 {
			return 0, tooLarge("its directory has more than %d bytes", int64(maxZipDirectory))
		}
	}
	done := 0
	for done < len(p) {
		n, err := unix.Pread(s.fd, p[done:], at+int64(done))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return done, err
		}
		if n == 0 {
			return done, io.EOF
		}
		done += n
	}
	return done, nil
}

func (u *unpacker) zipEntry(e *zip.File) error {
	name, err := cleanName(e.Name)
	if err != nil {
		return err
	}
	mode := e.Mode()
	switch {
	case e.Flags&1 != 0:
		return malformed("entry %q is encrypted", name)
	case mode.IsDir():
		perm := uint32(mode.Perm())
		if perm == 0 {
			perm = 0o755 // from a system without modes
		}
		return u.directory(name, meta{mode: perm, mtime: e.Modified})
	case mode&^(fs.ModePerm|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) == 0, mode.Type() == fs.ModeSymlink:
	default:
		return malformed("entry %q is a device, a pipe or a socket", name)
	}
	body, err := e.Open()
	if err != nil {
		return readError(err, Zip)
	}
	defer body.Close()
	if mode.Type() == fs.ModeSymlink {
		to, err := io.ReadAll(io.LimitReader(body, maxLink+1))
		if err != nil {
			return readError(err, Zip)
		}
		return u.link(name, func(name, to string) error { return u.symlink(name, to, meta{}) }, string(to))
	}
	return u.file(name, meta{mode: uint32(mode.Perm()), mtime: e.Modified}, int64(min(e.UncompressedSize64, 1<<62)), Zip, body)
}

// procFD is the path of an open file.
func procFD(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
