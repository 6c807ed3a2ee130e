package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
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
		return nil, 0, fmt.Errorf("open %s: %w", key, err)
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

// Put implements FileStore. A file without a key gets a new name like its own.
func (s *DirStore) Put(_ context.Context, key, name string, content io.Reader) (string, int64, error) {
	file, key, err := s.create(key, name)
	if err != nil {
		return "", 0, fmt.Errorf("store %s: %w", name, err)
	}
	size, err := io.Copy(file, content)
	return key, size, errors.Join(err, file.Close())
}

// maxNames bounds the names that are tried for a file without a key.
const maxNames = 10_000

func (s *DirStore) create(key, name string) (*os.File, string, error) {
	if key != "" {
		if err := s.makeDirs(path.Dir(key)); err != nil {
			return nil, "", err
		}
		file, err := s.root.OpenFile(key, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
		return file, key, err
	}
	extension := path.Ext(name)
	for n := 1; n < maxNames; n++ {
		key = name
		if n > 1 {
			key = fmt.Sprintf("%s-%d%s", strings.TrimSuffix(name, extension), n, extension)
		}
		file, err := s.root.OpenFile(key, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if !errors.Is(err, fs.ErrExist) {
			return file, key, err
		}
	}
	return nil, "", fs.ErrExist
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
