package blob

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/sandkasten/sandkasten/internal/durable"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// Dir is a store in a directory of the host.
//
// It is flat: '/' in a key is '_' in the name of its file, a byte that keys do
// not have. What is being written has a name that begins with a dot, as no key
// does, until it is whole.
//
// A marker tells the directory from another one that is at its place, as the empty
// one while a file system is not mounted: what is not in that one is Unavailable
// and not NotFound, and nothing is put there. In the marker is a random name of the
// store, so that another store's marker is none of it.
type Dir struct {
	path   string
	record string
	name   atomic.Pointer[string] // that the marker has, or ought to have; nil until it is known
}

// marker is the name of a file that is in each store.
const marker = ".store"

// NewDir returns the store in the directory at path, which it makes, for our
// eyes only, where it is missing. One process may use it at a time. In the file
// record, which lies elsewhere, it notes where the store is and its name, for later
// processes; "" is none. A store that was moved is known by its name.
func NewDir(path, record string) (*Dir, error) {
	d := &Dir{path: path, record: record}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make blob store: %w", err)
	}
	if noted, err := os.ReadFile(record); err == nil {
		at, name, named := strings.Cut(strings.TrimSuffix(string(noted), "\n"), "\n")
		if named {
			d.name.Store(&name)
		}
		if !named && at == path && d.marker() == nil { // of a version without names
			d.name.Store(new(string))
		}
	}
	// A disk that is full or read-only now may change: Put tries again.
	if err := unwritable(d.mark()); err != nil && errdefs.CodeOf(err) == errdefs.Internal {
		return nil, fmt.Errorf("make blob store: %w", err)
	}
	return d, nil
}

// mark puts the marker there, unless it was there and is not any more.
func (d *Dir) mark() error {
	known, there := d.name.Load(), d.marker()
	switch {
	case known != nil && !d.present():
		return d.elsewhere()
	case known != nil:
		return d.note(*known)
	}
	if there == nil || *there == "" {
		there = new(strings.ToLower(rand.Text()))
		if err := writeWhole(filepath.Join(d.path, marker), *there+"\n"); err != nil {
			return err
		}
	}
	d.name.Store(there)
	return d.note(*there)
}

// note records where the store is, if that is not recorded.
func (d *Dir) note(name string) error {
	text := d.path + "\n" + name + "\n"
	if noted, err := os.ReadFile(d.record); d.record == "" || err == nil && string(noted) == text {
		return nil
	}
	return writeWhole(d.record, text)
}

// writeWhole writes a file so that a crash leaves all of it or what was there: with half
// a name no store would be found again.
func writeWhole(path, text string) error {
	dir := filepath.Dir(path)
	f, err := os.OpenFile(filepath.Join(dir, unfinished+strings.TrimPrefix(filepath.Base(path), ".")), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return durable.Sync(dir)
}

// marker returns the name in the marker, or nil if there is none. One that cannot be read
// counts as the one that is expected.
func (d *Dir) marker() *string {
	text, err := os.ReadFile(filepath.Join(d.path, marker))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return d.name.Load()
	}
	return new(strings.TrimSpace(string(text)))
}

// present reports whether the marker is there, as far as that is known.
func (d *Dir) present() bool {
	known, there := d.name.Load(), d.marker()
	return there != nil && (known == nil || *known == *there)
}

// elsewhere is the error of a directory that is not the store's.
func (d *Dir) elsewhere() error {
	what := "the host's disk for archives is not there now"
	if d.marker() != nil {
		what = "another store of archives is at the place of the host's"
	}
	return errdefs.New(errdefs.Unavailable, "%s: mount the right one at %s, or, if its archives are lost for good, remove %s and start the daemon again", what, d.path, d.record)
}

// unfinished is how the names of files that are being written begin.
const unfinished = ".put-"

// Put implements Store. The bytes are on the disk before the name is: a crash
// in between leaves a file for Sweep and never half a blob.
func (d *Dir) Put(ctx context.Context, key string, r io.Reader) (size int64, err error) {
	if err := CheckKey(key); err != nil {
		return 0, err
	}
	defer func() { err = unwritable(err) }()
	if err := d.mark(); err != nil {
		return 0, fmt.Errorf("put %s: %w", key, err)
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
	return size, durable.Sync(d.path)
}

// unwritable gives an error of the disk its code.
func unwritable(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return errdefs.Wrap(err, errdefs.InsufficientSpace, "the host's disk is full")
	case errors.Is(err, syscall.EROFS):
		return errdefs.Wrap(err, errdefs.Unavailable, "the host's disk cannot be written now")
	}
	return err
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
	// What is not a file, as a pipe, is not waited for.
	f, err := os.OpenFile(d.file(key), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, d.missing(key, "open", err)
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
	if !info.Mode().IsRegular() {
		return nil, NotFound(key, errors.New("what has its name is no file"))
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
		return Info{}, d.missing(key, "stat", err)
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
		if err == nil && d.name.Load() != nil && !d.present() {
			err = d.elsewhere()
		}
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
		if !d.present() {
			return fmt.Errorf("delete %s: %w", key, d.elsewhere())
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	return durable.Sync(d.path)
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

// missing is the error of an operation on a file that could not be found.
func (d *Dir) missing(key, op string, err error) error {
	switch {
	case !errors.Is(err, fs.ErrNotExist):
	case !d.present():
		err = d.elsewhere()
	default:
		return NotFound(key, err)
	}
	return fmt.Errorf("%s %s: %w", op, key, err)
}
