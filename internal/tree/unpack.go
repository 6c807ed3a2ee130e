package tree

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Unpack extracts a tar stream below root, and returns how many entries it left
// out: special files, and links that lead out of root. Files and links that are
// there are replaced, and directories kept. A name that leads out of root is an
// error. What was extracted before an error stays.
func Unpack(root *os.Root, stream io.Reader) (skipped int, err error) {
	u := unpacker{root: root, in: tar.NewReader(stream), buf: make([]byte, 256<<10)}
	for {
		header, err := u.in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return u.skipped, fmt.Errorf("read the archive: %w", err)
		}
		if err := u.entry(header); err != nil {
			return u.skipped, fmt.Errorf("%q: %w", header.Name, err)
		}
	}
	return u.skipped, u.finish()
}

type unpacker struct {
	root    *os.Root
	in      *tar.Reader
	buf     []byte
	skipped int

	links []*tar.Header // made at the end, so that nothing is written through them
	dirs  []*tar.Header // get their modes at the end: they may be read-only
}

func (u *unpacker) entry(header *tar.Header) error {
	name := path.Clean(header.Name)
	if name == "." {
		return nil
	}
	if !filepath.IsLocal(filepath.FromSlash(name)) || strings.ContainsRune(name, 0) {
		return errors.New("an entry leads out of the directory")
	}
	header.Name = name
	switch header.Typeflag {
	case tar.TypeDir:
		u.dirs = append(u.dirs, header)
		return u.root.MkdirAll(name, 0o755)
	case tar.TypeReg:
		return u.file(header)
	case tar.TypeSymlink, tar.TypeLink:
		u.links = append(u.links, header)
		return nil
	default:
		u.skipped++
		return nil
	}
}

func (u *unpacker) file(header *tar.Header) error {
	if err := u.makeRoom(header.Name); err != nil {
		return err
	}
	f, err := u.root.OpenFile(header.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(f, onlyReader{u.in}, u.buf)
	if err := errors.Join(err, f.Chmod(header.FileInfo().Mode().Perm()), f.Close()); err != nil {
		return err
	}
	return u.root.Chtimes(header.Name, header.ModTime, header.ModTime)
}

// makeRoom makes the directories above name and removes what is there.
func (u *unpacker) makeRoom(name string) error {
	if err := u.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	info, err := u.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return errors.New("a directory of this name is there already")
	}
	return u.root.Remove(name)
}

// finish makes the links and sets the modes and times of directories, those below first.
func (u *unpacker) finish() error {
	for _, header := range u.links {
		if err := u.link(header); err != nil {
			return fmt.Errorf("%q: %w", header.Name, err)
		}
	}
	for i := len(u.dirs) - 1; i >= 0; i-- {
		dir := u.dirs[i]
		if err := u.root.Chtimes(dir.Name, dir.ModTime, dir.ModTime); err != nil {
			return err
		}
		if err := u.root.Chmod(dir.Name, dir.FileInfo().Mode().Perm()); err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacker) link(header *tar.Header) error {
	if header.Typeflag == tar.TypeLink {
		if err := u.makeRoom(header.Name); err != nil {
			return err
		}
		return u.root.Link(path.Clean(header.Linkname), header.Name)
	}
	if !u.staysInside(header.Name, header.Linkname) {
		u.skipped++
		return nil
	}
	if err := u.makeRoom(header.Name); err != nil {
		return err
	}
	return u.root.Symlink(header.Linkname, header.Name)
}

// staysInside reports whether a symlink leads to a place in the directory, by
// its text alone. That holds only if its own directory is where its name says,
// and if it goes up before it goes down: behind another link, up is elsewhere.
func (u *unpacker) staysInside(name, target string) bool {
	down := false
	for part := range strings.SplitSeq(target, "/") {
		if part == ".." && down {
			return false
		}
		down = down || part != ".." && part != "." && part != ""
	}
	if path.IsAbs(target) || !filepath.IsLocal(filepath.FromSlash(path.Join(path.Dir(name), target))) {
		return false
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if info, err := u.root.Lstat(dir); err == nil && !info.IsDir() {
			return false
		}
	}
	return true
}
