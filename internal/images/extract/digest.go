package extract

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Digest sums up a tree that Tree made: names, kinds, owners, modes, contents,
// link targets and whiteouts. The same value later means that nothing was
// changed on disk.
func Digest(ctx context.Context, dir string) (string, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", &os.PathError{Op: "open", Path: dir, Err: err}
	}
	d := digester{ctx: ctx, sum: sha256.New(), buf: make([]byte, copyBuffer)}
	if err := d.directory(fd, "."); err != nil {
		return "", fmt.Errorf("sum up %s: %w", dir, err)
	}
	return "sha256:" + hex.EncodeToString(d.sum.Sum(nil)), nil
}

type digester struct {
	ctx context.Context
	sum hash.Hash
	buf []byte
}

// directory closes fd. Its depth is bounded by what Tree allowed.
func (d *digester) directory(fd int, p string) (err error) {
	f := os.NewFile(uintptr(fd), p)
	defer func() { err = errors.Join(err, f.Close()) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	d.record(p, st)
	var opaque [8]byte
	if n, err := unix.Fgetxattr(fd, opaqueXattr, opaque[:]); err == nil {
		d.text(string(opaque[:n]))
	}
	names, err := f.Readdirnames(-1)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		if err := d.ctx.Err(); err != nil {
			return err
		}
		if err := d.child(fd, name, join(p, name)); err != nil {
			return err
		}
	}
	return nil
}

func (d *digester) child(dir int, name, p string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &os.PathError{Op: "fstatat", Path: p, Err: err}
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return &os.PathError{Op: "openat", Path: p, Err: err}
		}
		return d.directory(fd, p)
	case unix.S_IFREG:
		d.record(p, st)
		return d.content(dir, name, p)
	case unix.S_IFLNK:
		d.record(p, st)
		n, err := unix.Readlinkat(dir, name, d.buf)
		if err != nil {
			return &os.PathError{Op: "readlinkat", Path: p, Err: err}
		}
		d.text(string(d.buf[:n]))
		return nil
	}
	d.record(p, st)
	return nil
}

func (d *digester) content(dir int, name, p string) error {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "openat", Path: p, Err: err}
	}
	f := os.NewFile(uintptr(fd), p)
	_, err = io.CopyBuffer(struct{ io.Writer }{d.sum}, struct{ io.Reader }{f}, d.buf)
	return errors.Join(err, f.Close())
}

// record and text frame what they add by its length, so that two trees cannot
// run into the same bytes.
func (d *digester) record(p string, st unix.Stat_t) {
	d.text(p)
	size := st.Size
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		size = 0 // depends on the host's filesystem
	}
	fmt.Fprintf(d.sum, "%o %d %d %d %d\n", st.Mode, st.Uid, st.Gid, size, st.Rdev)
}

func (d *digester) text(s string) { fmt.Fprintf(d.sum, "%d:%s", len(s), s) }
