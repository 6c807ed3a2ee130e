package chroot

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Layer writes what the step has changed as a layer of an OCI image.
func (c Command) Layer(ctx context.Context, w io.Writer) error {
	out := tar.NewWriter(w)
	top := filepath.Join(c.Dir, upperDir)
	links := map[uint64]string{} // names of files that have several, by inode
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		name := strings.TrimPrefix(strings.TrimPrefix(path, top), "/")
		if err != nil || name == "" || slices.Contains(lent, name) {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return addEntry(out, path, name, info, links)
	})
	return errors.Join(err, out.Close())
}

const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

func addEntry(out *tar.Writer, path, name string, info fs.FileInfo, links map[uint64]string) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s: nobody knows its owner", name)
	}
	kind := info.Mode().Type()
	if kind&fs.ModeCharDevice != 0 && st.Rdev == 0 { // overlayfs's sign for a file that is gone
		return out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: filepath.Join(filepath.Dir(name), whiteout+filepath.Base(name))})
	}
	if kind != 0 && kind != fs.ModeDir && kind != fs.ModeSymlink {
		return nil // no image has devices, sockets or FIFOs
	}
	target := ""
	if kind == fs.ModeSymlink {
		var err error
		if target, err = os.Readlink(path); err != nil {
			return err
		}
	}
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	h.Name, h.Uname, h.Gname, h.Format = name, "", "", tar.FormatPAX
	if kind == fs.ModeDir {
		h.Name += "/"
	}
	if first := links[st.Ino]; first != "" {
		h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
		return out.WriteHeader(h)
	}
	if kind == 0 && st.Nlink > 1 {
		links[st.Ino] = name
	}
	if err := out.WriteHeader(h); err != nil {
		return err
	}
	switch kind {
	case fs.ModeDir:
		return addOpaque(out, path, name)
	case 0:
		return copyFile(out, path)
	}
	return nil
}

// addOpaque notes a directory that hides what is below it.
func addOpaque(out *tar.Writer, path, name string) error {
	var value [8]byte
	n, err := unix.Lgetxattr(path, "user.overlay.opaque", value[:])
	if err != nil || string(value[:n]) != "y" {
		return nil //nolint:nilerr // it has no such attribute
	}
	return out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name + "/" + opaque})
}

func copyFile(out io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, f)
	return errors.Join(err, f.Close())
}
