// Package tree moves a local directory into a tar stream and out of one: the
// command line's half of copying directories. It keeps modes, links and times. What it
// unpacks was packed by a sandbox and is taken for hostile: nothing is written
// outside of the directory, and no link that is made leads out of it.
package tree

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// block is the unit of a tar stream, which ends in two empty ones.
const block = 512

// Plan is a directory as it is to be packed. Its size is known before the first
// byte, which a request with a body of known length needs.
type Plan struct {
	Size    int64 // of the tar stream
	Skipped int   // special files, which are left out

	root    *os.Root
	headers []*tar.Header
}

// Scan looks at a directory and all that is below it. Links are not followed.
// The caller closes the plan.
func Scan(dir string) (*Plan, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	p := &Plan{root: root, Size: 2 * block}
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return p.add(name, d)
	})
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return p, nil
}

// Close frees what the plan holds.
func (p *Plan) Close() { p.root.Close() }

func (p *Plan) add(name string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	target := ""
	switch {
	case info.Mode().IsRegular(), info.IsDir():
	case info.Mode()&fs.ModeSymlink != 0:
		if target, err = p.root.Readlink(name); err != nil {
			return err
		}
	default:
		p.Skipped++
		return nil
	}
	header, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	// Who it belongs to here means nothing there.
	*header = tar.Header{
		Typeflag: header.Typeflag, Name: filepath.ToSlash(name), Linkname: target, Size: header.Size,
		Mode: int64(info.Mode().Perm()),
		// Another format has full seconds only, and its writer rounds up, into the future.
		ModTime: header.ModTime, Format: tar.FormatPAX,
	}
	if info.IsDir() {
		header.Name += "/"
	}
	length, err := headerSize(header)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	p.Size += length + (header.Size+block-1)/block*block
	p.headers = append(p.headers, header)
	return nil
}

// headerSize is how long a header is in the stream: long names take more.
func headerSize(header *tar.Header) (int64, error) {
	var n counter
	err := tar.NewWriter(&n).WriteHeader(header)
	return int64(n), err
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// WriteTar writes exactly Size bytes. A file that is shorter by now than it was
// when it was scanned is an error; of one that has grown, the rest is left out.
func (p *Plan) WriteTar(w io.Writer) error {
	out := tar.NewWriter(w)
	buf := make([]byte, 256<<10)
	for _, header := range p.headers {
		if err := out.WriteHeader(header); err != nil {
			return fmt.Errorf("%s: %w", header.Name, err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if err := p.content(out, header, buf); err != nil {
			return fmt.Errorf("%s: %w", header.Name, err)
		}
	}
	return out.Close()
}

func (p *Plan) content(out io.Writer, header *tar.Header, buf []byte) error {
	f, err := p.root.Open(filepath.FromSlash(header.Name))
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := io.CopyBuffer(out, onlyReader{io.LimitReader(f, header.Size)}, buf)
	if err == nil && n < header.Size {
		err = fmt.Errorf("it became shorter while it was read: %w", io.ErrUnexpectedEOF)
	}
	return err
}

// onlyReader keeps io.CopyBuffer from finding a way of its own.
type onlyReader struct{ io.Reader }
