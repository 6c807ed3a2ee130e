package vm

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// cpioWriter writes an archive in the "newc" format, the one a Linux kernel
// unpacks as its initramfs. Parent directories are added as they are needed.
// The first error sticks and is returned by close.
type cpioWriter struct {
	w    io.Writer
	n    int64 // bytes written so far
	ino  int
	dirs map[string]bool
	err  error
}

func newCPIOWriter(w io.Writer) *cpioWriter {
	return &cpioWriter{w: w, dirs: map[string]bool{".": true}}
}

const (
	cpioDir  = 0o040000
	cpioFile = 0o100000
)

// file adds a regular file whose content is src's.
func (c *cpioWriter) file(name string, mode fs.FileMode, src io.Reader, size int64) {
	name = strings.TrimPrefix(path.Clean(name), "/")
	c.parents(name)
	c.header(name, cpioFile|uint32(mode.Perm()), size)
	if c.err != nil {
		return
	}
	n, err := io.Copy(countWriter{c}, io.LimitReader(src, size))
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		c.err = fmt.Errorf("archive %s: %w", name, err)
		return
	}
	c.pad()
}

// hostFile adds the file at hostPath under name, or the tree if it is a
// directory. Symbolic links are followed.
func (c *cpioWriter) hostFile(name, hostPath string) {
	err := filepath.Walk(hostPath, func(p string, info fs.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		rel, err := filepath.Rel(hostPath, p)
		if err != nil {
			return err
		}
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		if info, err = f.Stat(); err != nil {
			return err
		}
		c.file(path.Join(name, filepath.ToSlash(rel)), info.Mode(), f, info.Size())
		return c.err
	})
	if err != nil && c.err == nil {
		c.err = fmt.Errorf("archive %s: %w", hostPath, err)
	}
}

// close ends the archive. It does not close the underlying writer.
func (c *cpioWriter) close() error {
	c.header("TRAILER!!!", 0, 0)
	return c.err
}

func (c *cpioWriter) parents(name string) {
	dir := path.Dir(name)
	if c.dirs[dir] || c.err != nil {
		return
	}
	c.parents(dir)
	c.dirs[dir] = true
	c.header(dir, cpioDir|0o755, 0)
}

// header writes one entry's header: thirteen fields of eight hexadecimal
// digits, of which a kernel needs inode, mode, links, size and name length.
func (c *cpioWriter) header(name string, mode uint32, size int64) {
	if c.err != nil {
		return
	}
	c.ino++
	links := 1
	if mode&cpioDir != 0 {
		links = 2
	}
	_, c.err = fmt.Fprintf(countWriter{c}, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
		c.ino, mode, 0, 0, links, 0, size, 0, 0, 0, 0, len(name)+1, 0, name)
	c.pad()
}

// pad aligns the archive to four bytes, as the format demands after each name
// and each content.
func (c *cpioWriter) pad() {
	if c.err == nil && c.n%4 != 0 {
		_, c.err = countWriter{c}.Write(make([]byte, 4-c.n%4))
	}
}

type countWriter struct{ c *cpioWriter }

func (w countWriter) Write(p []byte) (int, error) {
	n, err := w.c.w.Write(p)
	w.c.n += int64(n)
	return n, err
}
