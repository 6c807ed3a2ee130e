// Package flatten writes the layers of an image as one archive: what overlayfs
// would show of them, for an engine that takes a root file system as a tar. It
// also lists what is in that.
package flatten

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/baseline"
)

// Write writes the tree that the layers, the top one first, make together. The
// layers are not to change meanwhile. Devices and sockets are left out.
func Write(ctx context.Context, w io.Writer, layers []string) error {
	a := &archive{w: tar.NewWriter(w), links: make(map[inode]string)}
	if err := walk(ctx, layers, a.add); err != nil {
		return err
	}
	return a.w.Close()
}

// List writes a list of package baseline of what Write writes of the layers.
func List(ctx context.Context, w io.Writer, layers []string) error {
	list := baseline.NewWriter(w)
	err := walk(ctx, layers, func(f file) error {
		e := baseline.Entry{Path: f.name, Mode: f.stat.Mode, UID: f.stat.Uid, GID: f.stat.Gid, Size: f.stat.Size}
		// As a tar file has it.
		e.MTime = f.info.ModTime().Round(time.Second).Unix()
		return list.Add(e)
	})
	return errors.Join(err, list.Flush())
}

// Size is how many bytes on a disk what Write writes of the layers takes there,
// about.
func Size(ctx context.Context, layers []string) (int64, error) {
	const block = 4096
	var total int64
	seen := make(map[inode]bool)
	err := walk(ctx, layers, func(f file) error {
		at := inode{f.layer, f.stat.Ino}
		if !seen[at] { // a file with several names takes its space once
			total += (max(f.stat.Size, 1) + block - 1) &^ (block - 1)
		}
		if f.stat.Nlink > 1 {
			seen[at] = true
		}
		return nil
	})
	return total, err
}

// file is one that is seen.
type file struct {
	layer int // that it is in
	name  string
	full  string // its path
	info  fs.FileInfo
	stat  *syscall.Stat_t
}

// walk visits what overlayfs would show of layers: a directory before what is in
// it, names in the order of their bytes.
func walk(ctx context.Context, layers []string, visit func(file) error) error {
	all := make([]int, len(layers))
	for i := range all {
		all[i] = i
	}
	f := &flattening{ctx: ctx, layers: layers, visit: visit}
	return f.directory("", all)
}

type flattening struct {
	ctx    context.Context //nolint:containedctx // of the one call of walk
	layers []string
	visit  func(file) error
}

// archive is what Write makes.
type archive struct {
	w     *tar.Writer
	links map[inode]string // what was written of files with several names
}

// inode is a file of one layer.
type inode struct {
	layer  int
	number uint64
}

// entry is what is seen of one name: in the top layer that has it and, of a
// directory, in those below as far as they show through.
type entry struct {
	layers []int
	hidden bool // the top layer says that it is deleted
	closed bool // no lower layer shows through
}

// directory writes what is in a directory that the layers numbered in stack
// have.
func (f *flattening) directory(dir string, stack []int) error {
	found := make(map[string]*entry)
	for _, layer := range stack {
		if err := f.look(found, dir, layer); err != nil {
			return err
		}
	}
	names := make([]string, 0, len(found))
	for name, e := range found {
		if !e.hidden {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if err := f.ctx.Err(); err != nil {
			return err
		}
		if err := f.entry(path.Join(dir, name), found[name].layers); err != nil {
			return fmt.Errorf("%s: %w", path.Join(dir, name), err)
		}
	}
	return nil
}

// look adds what one layer has in a directory.
func (f *flattening) look(found map[string]*entry, dir string, layer int) error {
	list, err := os.ReadDir(f.path(layer, dir))
	if err != nil {
		return err
	}
	for _, d := range list {
		e := found[d.Name()]
		if e != nil && (e.closed || !d.IsDir()) {
			e.closed = true
			continue
		}
		opaque, err := f.opaque(layer, path.Join(dir, d.Name()), d)
		if err != nil {
			return err
		}
		if e == nil {
			e = &entry{}
			if e.hidden, err = whiteout(d); err != nil {
				return err
			}
			found[d.Name()] = e
		}
		e.layers, e.closed = append(e.layers, layer), opaque
	}
	return nil
}

// whiteout reports whether an entry is overlayfs's mark of a deleted one.
func whiteout(d fs.DirEntry) (bool, error) {
	if d.Type()&fs.ModeCharDevice == 0 {
		return false, nil
	}
	info, err := d.Info()
	if err != nil {
		return false, err
	}
	stat, err := statOf(info)
	return err == nil && stat.Rdev == 0, err
}

// opaque reports whether nothing of lower layers shows through an entry: it is
// no directory, or has overlayfs's mark.
func (f *flattening) opaque(layer int, name string, d fs.DirEntry) (bool, error) {
	if !d.IsDir() {
		return true, nil
	}
	value := make([]byte, 2)
	n, err := unix.Lgetxattr(f.path(layer, name), "user.overlay.opaque", value)
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ENOTSUP) {
		return false, nil
	}
	return err == nil && string(value[:n]) == "y", err
}

// entry visits one, with all that is below it.
func (f *flattening) entry(name string, layers []int) error {
	full := f.path(layers[0], name)
	info, err := os.Lstat(full)
	if err != nil {
		return err
	}
	if info.Mode()&(fs.ModeDevice|fs.ModeCharDevice|fs.ModeSocket) != 0 {
		return nil
	}
	stat, err := statOf(info)
	if err != nil {
		return err
	}
	if err := f.visit(file{layers[0], name, full, info, stat}); err != nil || !info.IsDir() {
		return err
	}
	return f.directory(name, layers)
}

// add writes one file.
func (a *archive) add(f file) error {
	head, err := a.header(f)
	if err != nil {
		return err
	}
	if err := a.w.WriteHeader(head); err != nil || head.Typeflag != tar.TypeReg {
		return err
	}
	return a.content(f.full, f.info.Size())
}

func (a *archive) header(f file) (*tar.Header, error) {
	target := ""
	if f.info.Mode()&fs.ModeSymlink != 0 {
		var err error
		if target, err = os.Readlink(f.full); err != nil {
			return nil, err
		}
	}
	head, err := tar.FileInfoHeader(f.info, target)
	if err != nil {
		return nil, err
	}
	head.Name, head.Uname, head.Gname = f.name, "", "" // the names would be the host's
	if f.info.IsDir() {
		head.Name += "/"
	}
	if f.stat.Nlink > 1 && f.info.Mode().IsRegular() {
		first, ok := a.links[inode{f.layer, f.stat.Ino}]
		if ok {
			head.Typeflag, head.Linkname, head.Size = tar.TypeLink, first, 0
			return head, nil
		}
		a.links[inode{f.layer, f.stat.Ino}] = f.name
	}
	head.PAXRecords, err = attributes(f.full)
	return head, err
}

// attributes are the extended ones that a root file system may need.
func attributes(full string) (map[string]string, error) {
	names := make([]byte, 64<<10)
	n, err := unix.Llistxattr(full, names)
	if errors.Is(err, unix.ENOTSUP) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	records := make(map[string]string)
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names[:n]), "\x00"), "\x00") {
		if name != "security.capability" && !strings.HasPrefix(name, "user.") {
			continue
		}
		value := make([]byte, 64<<10)
		n, err := unix.Lgetxattr(full, name, value)
		if err != nil {
			return nil, err
		}
		records["SCHILY.xattr."+name] = string(value[:n])
	}
	return records, nil
}

func (a *archive) content(full string, size int64) (err error) {
	file, err := os.Open(full)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = io.CopyN(a.w, file, size)
	return err
}

func (f *flattening) path(layer int, name string) string {
	return filepath.Join(f.layers[layer], name)
}

func statOf(info fs.FileInfo) (*syscall.Stat_t, error) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, errors.New("the file system tells too little of its files")
	}
	return stat, nil
}
