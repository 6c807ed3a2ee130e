package archive

import (
	"archive/tar"
	"archive/zip"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/runner/tree"
	"github.com/sandkasten/sandkasten/protocol"
)

// Pack writes an archive of what is below the directory fd, or of the file fd
// under the given name. It owns fd. Links are packed as links; pipes, sockets
// and devices are left out. It calls check often and ends with its error. An
// error of out is returned as it is.
func Pack(out io.Writer, f Format, fd int, name string, which Selection, check func() error) error {
	a, st, err := begin(out, f, fd)
	if err != nil {
		return err
	}
	p := &packer{writer: a, which: which, upper: which.Layer, check: check, buf: make([]byte, copyBuffer)}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		err = p.below(fd)
	} else {
		err = p.file(fd, name, &st)
	}
	if err != nil {
		return err
	}
	return a.close()
}

// begin describes fd and makes the writer of its archive. It closes fd if it
// fails.
func begin(out io.Writer, f Format, fd int) (a writer, st unix.Stat_t, err error) {
	err = unix.Fstat(fd, &st)
	if err == nil {
		a, err = newWriter(out, f)
	}
	if err != nil {
		tree.Close(fd)
	}
	return a, st, err
}

// packer is one Pack under way.
type packer struct {
	writer
	which Selection
	upper bool // overlayfs's marks are such
	check func() error
	buf   []byte
	bytes int64
}

func (p *packer) below(dir int) error {
	w, err := tree.NewWalk(dir, tree.Wide, p.check)
	if err != nil {
		return err
	}
	defer w.Close()
	return w.Each(func(e *tree.Entry) error {
		if e.Leave || !p.which.selects(w, e) {
			return nil
		}
		if err := checkPathLen(w); err != nil {
			return err
		}
		return p.entry(w, e)
	})
}

func checkPathLen(w *tree.Walk) error {
	if w.PathLen() > protocol.MaxPath {
		return protocol.Refuse(protocol.CodeUnprocessable, "a path in the directory is longer than %d bytes; pack its parts one by one", protocol.MaxPath)
	}
	return nil
}

func (p *packer) entry(w *tree.Walk, e *tree.Entry) error {
	path := w.Path()
	switch e.Type() {
	case unix.S_IFDIR:
		if err := p.header(path+"/", &e.Stat, ""); err != nil {
			return err
		}
		err := w.Enter()
		if err == nil && p.upper {
			err = p.opaque(w.Dir(), path)
		}
		if err != nil && !errors.Is(err, tree.ErrKernelFS) {
			return err
		}
	case unix.S_IFCHR:
		if p.upper && e.Stat.Rdev == 0 {
			return p.whiteout(path[:len(path)-len(e.Name)] + whiteoutPrefix + e.Name)
		}
	case unix.S_IFLNK:
		target, err := tree.Readlink(w.Dir(), e.Name)
		if err != nil {
			return err
		}
		return p.header(path, &e.Stat, target)
	case unix.S_IFREG:
		fd, st, err := tree.OpenFile(w.Dir(), e.Name)
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		if err != nil {
			return err
		}
		return p.file(fd, path, st)
	}
	return nil
}

// file packs a regular file, which it owns: as many bytes as it has now.
func (p *packer) file(fd int, path string, st *unix.Stat_t) error {
	f := os.NewFile(uintptr(fd), "file")
	defer f.Close()
	most := protection.Wider[int64](protection.PackBound, maxBytes, 1<<10)
	if p.bytes += st.Size; st.Size > most || p.bytes > most {
		return protocol.Refuse(protocol.CodeTooLarge, "the files have more than %d bytes, holes included, which is the limit of an archive", int64(maxBytes))
	}
	if err := p.header(path, st, ""); err != nil {
		return err
	}
	for left := st.Size; left > 0; {
		if err := p.check(); err != nil {
			return err
		}
		n, err := f.Read(p.buf[:min(left, copyBuffer)])
		if errors.Is(err, io.EOF) {
			return protocol.Refuse(protocol.CodeUnavailable, "the file %q shrank while it was packed; try again", strings.ToValidUTF8(path, "?"))
		}
		if err != nil {
			return err
		}
		if _, err := p.Write(p.buf[:n]); err != nil {
			return err
		}
		left -= int64(n)
	}
	return nil
}

// writer is an archive being written. Write adds to the entry whose header was
// last.
type writer interface {
	io.Writer
	header(path string, st *unix.Stat_t, target string) error
	close() error
}

func newWriter(out io.Writer, f Format) (writer, error) {
	switch f {
	case Tar:
		return &tarWriter{Writer: tar.NewWriter(out)}, nil
	case TarGzip:
		z, err := gzip.NewWriterLevel(out, gzip.BestSpeed)
		if err != nil {
			return nil, err
		}
		return &tarWriter{Writer: tar.NewWriter(z), compressor: z}, nil
	case TarZstd:
		z, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(1<<20))
		if err != nil {
			return nil, err
		}
		return &tarWriter{Writer: tar.NewWriter(z), compressor: z}, nil
	case Zip:
		z := zip.NewWriter(out)
		z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
			return flate.NewWriter(w, flate.BestSpeed)
		})
		return &zipWriter{archive: z}, nil
	}
	return nil, f.Valid()
}

type tarWriter struct {
	*tar.Writer
	compressor io.Closer // may be nil
}

func (w *tarWriter) header(path string, st *unix.Stat_t, target string) error {
	h := &tar.Header{
		Name: path, Linkname: target, Mode: int64(st.Mode & 0o7777), Uid: int(st.Uid), Gid: int(st.Gid),
		ModTime: time.Unix(st.Mtim.Unix()), Typeflag: tar.TypeReg, Format: tar.FormatPAX,
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		h.Typeflag = tar.TypeDir
	case unix.S_IFLNK:
		h.Typeflag = tar.TypeSymlink
	default:
		h.Size = st.Size
	}
	return w.WriteHeader(h)
}

func (w *tarWriter) close() error {
	err := w.Close()
	if w.compressor != nil {
		err = errors.Join(err, w.compressor.Close())
	}
	return err
}

type zipWriter struct {
	archive *zip.Writer
	entry   io.Writer
}

func (w *zipWriter) Write(p []byte) (int, error) { return w.entry.Write(p) }

func (w *zipWriter) header(path string, st *unix.Stat_t, target string) error {
	h := &zip.FileHeader{Name: path, Modified: time.Unix(st.Mtim.Unix()), Method: zip.Deflate}
	mode := fs.FileMode(st.Mode & 0o777)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		mode |= fs.ModeDir
		h.Method = zip.Store
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
		h.Method = zip.Store
	}
	h.SetMode(mode)
	var err error
	if w.entry, err = w.archive.CreateHeader(h); err != nil || target == "" {
		return err
	}
	_, err = io.WriteString(w.entry, target)
	return err
}

func (w *zipWriter) close() error { return w.archive.Close() }
