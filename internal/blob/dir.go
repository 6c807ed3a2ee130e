package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
)

// Dir is a store in a directory of the host.
//
// It is flat: '/' in a key is '_' in the name of its file, a byte that keys do
// not have. What is being written has a name that begins with a dot, as no key
// does, until it is whole.
type Dir struct{ path string }

// NewDir returns the store in the directory at path, which it makes, for our
// eyes only, where it is missing. One process may use it at a time.
func NewDir(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make blob store: %w", err)
	}
	return &Dir{path: path}, nil
}

// unfinished is how the names of files that are being written begin.
const unfinished = ".put-"

// Put implements Store. The bytes are on the disk before the name is: a crash
// in between leaves a file for Sweep and never half a blob.
func (d *Dir) Put(ctx context.Context, key string, r io.Reader) (size int64, err error) {
	if err := CheckKey(key); err != nil {
		return 0, err
	}
	f, err := os.CreateTemp(d.path, unfinished) // mode 0600
	if err != nil {
		return 0, fmt.Errorf("put %s: %w", key, err)
	}
	size, err = io.Copy(f, &ctxReader{ctx, r})
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), d.file(key))
	}
	if err != nil {
		return size, errors.Join(fmt.Errorf("put %s: %w", key, err), os.Remove(f.Name()))
	}
	return size, d.sync()
}

// ctxReader fails when ctx has ended.
type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (r *ctxReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// Open implements Store.
func (d *Dir) Open(_ context.Context, key string, offset int64) (_ io.ReadCloser, err error) {
	if err := CheckKey(key); err != nil {
		return nil, err
	}
	f, err := os.Open(d.file(key))
	if err != nil {
		return nil, notFound(key, "open", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", key, err)
	}
	if err := CheckOffset(key, offset, info.Size()); err != nil {
		return nil, err
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return nil, fmt.Errorf("open %s: %w", key, err)
	}
	return f, nil
}

// Stat implements Store.
func (d *Dir) Stat(_ context.Context, key string) (Info, error) {
	if err := CheckKey(key); err != nil {
		return Info{}, err
	}
	info, err := os.Stat(d.file(key))
	if err != nil {
		return Info{}, notFound(key, "stat", err)
	}
	return Info{Key: key, Size: info.Size(), ModTime: info.ModTime()}, nil
}

// List implements Store. A file that no Put can have written is passed over.
func (d *Dir) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		if err := CheckPrefix(prefix); err != nil {
			yield(Info{}, err)
			return
		}
		entries, err := os.ReadDir(d.path)
		if err != nil {
			yield(Info{}, fmt.Errorf("list blobs: %w", err))
			return
		}
		for _, e := range entries {
			key := strings.ReplaceAll(e.Name(), "_", "/")
			if !strings.HasPrefix(key, prefix) || CheckKey(key) != nil {
				continue
			}
			info, err := d.Stat(ctx, key)
			if errors.Is(err, fs.ErrNotExist) { // deleted meanwhile
				continue
			}
			if !yield(info, err) || err != nil {
				return
			}
		}
	}
}

// Delete implements Store.
func (d *Dir) Delete(_ context.Context, key string) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	err := os.Remove(d.file(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	return d.sync()
}

// Sweep implements Store.
func (d *Dir) Sweep(context.Context) error {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return fmt.Errorf("sweep blobs: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), unfinished) {
			errs = append(errs, os.Remove(filepath.Join(d.path, e.Name())))
		}
	}
	return errors.Join(errs...)
}

func (d *Dir) file(key string) string {
	return filepath.Join(d.path, strings.ReplaceAll(key, "/", "_"))
}

// sync makes names durable.
func (d *Dir) sync() error {
	f, err := os.Open(d.path)
	if err != nil {
		return fmt.Errorf("sync blob store: %w", err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sync blob store: %w", err)
	}
	return nil
}

func notFound(key, op string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return NotFound(key, err)
	}
	return fmt.Errorf("%s %s: %w", op, key, err)
}
