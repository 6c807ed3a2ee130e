package tools

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/sandkasten/sandkasten/sdk/go"
)

// DirStore is a FileStore of the files below a directory, whose keys are their paths
// in it. No key leads out of it.
type DirStore struct{ root *os.Root }

// OpenDir returns the store of a directory. The caller closes it.
func OpenDir(dir string) (*DirStore, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &DirStore{root}, nil
}

// Close ends the use of the directory.
func (s *DirStore) Close() error { return s.root.Close() }

// Open implements FileStore.
func (s *DirStore) Open(_ context.Context, key string) (io.ReadCloser, int64, error) {
	file, err := s.root.Open(key)
	if err != nil {
		return nil, 0, wrongKey(key, err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &InputError{Message: key + " is no file; send the file_key of one"}
	}
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, info.Size(), nil
}

// Put implements FileStore. A file without a key gets a new name like its own. The file is
// there whole, or what was there before is.
func (s *DirStore) Put(_ context.Context, key, name string, content io.Reader) (stored string, size int64, err error) {
	defer func() {
		if err != nil {
			stored, size, err = "", 0, wrongKey(orElse(key, name), err)
		}
	}()
	if key != "" {
		if err := s.makeDirs(path.Dir(key)); err != nil {
			return "", 0, err
		}
	}
	part := path.Join(path.Dir(orElse(key, name)), partPrefix+rand.Text())
	size, err = s.write(part, content)
	if err == nil && key == "" {
		key, err = s.reserve(name)
	}
	if err == nil {
		err = s.root.Rename(part, key)
	}
	if err != nil {
		// Whatever it is that went wrong, there may be nothing to remove.
		_ = s.root.Remove(part)
	}
	return key, size, err
}

// wrongKey says of an error that the key is to blame for what to send instead. The
// content of a file, and the disk, fail with others.
func wrongKey(key string, err error) error {
	var read *sandkasten.APIError
	path := (*fs.PathError)(nil)
	link := (*os.LinkError)(nil)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.As(err, &read), !errors.As(err, &path) && !errors.As(err, &link),
		errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EIO):
		return fmt.Errorf("file %s: %w", key, err)
	}
	return wrongInput("file_key %q cannot be used: %v; send a relative path without .., such as out/report.pdf, or leave it out", key, err)
}

// partPrefix begins the names of files that are being written.
const partPrefix = ".part-"

func (s *DirStore) write(name string, content io.Reader) (size int64, err error) {
	file, err := s.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	size, err = io.Copy(file, content)
	return size, errors.Join(err, file.Close())
}

// maxNames bounds the names that are tried for a file without a key.
const maxNames = 10_000

// reserve makes an empty file whose name is new.
func (s *DirStore) reserve(name string) (key string, err error) {
	extension := path.Ext(name)
	for n := 1; n < maxNames; n++ {
		key = name
		if n > 1 {
			key = fmt.Sprintf("%s-%d%s", strings.TrimSuffix(name, extension), n, extension)
		}
		file, err := s.root.OpenFile(key, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err == nil {
			return key, file.Close()
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
	return "", fs.ErrExist
}

// makeDirs makes the directories of a key.
func (s *DirStore) makeDirs(dir string) error {
	if dir == "." || dir == "/" {
		return nil
	}
	if err := s.makeDirs(path.Dir(dir)); err != nil {
		return err
	}
	if err := s.root.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
