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
//
// Each operation opens the directory once and works in what it has opened. So a file
// system that is mounted over it, or unmounted, in the middle of an operation changes
// nothing for that one: it finds blob and marker in the same directory, or neither.
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
		if !named && at == path && d.isUnmarked() { // of a version without names
			d.name.Store(new(string))
		}
	}
	// A disk that is full or read-only now may change: Put tries again.
	if err := unwritable(d.mark()); err != nil && errdefs.CodeOf(err) == errdefs.Internal {
		return nil, fmt.Errorf("make blob store: %w", err)
	}
	return d, nil
}

// open opens what is at the store's place now. The caller closes it.
func (d *Dir) open() (*os.Root, error) {
	dir, err := os.OpenRoot(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = d.elsewhere(nil)
	}
	return dir, err
}

// isUnmarked reports whether there is no marker at the store's place.
func (d *Dir) isUnmarked() bool {
	dir, err := d.open()
	if err != nil {
		return false
	}
	defer dir.Close()
	return d.marker(dir) == nil
}

// mark puts the marker in what is at the store's place.
func (d *Dir) mark() error {
	dir, err := d.open()
	if err != nil {
		return err
	}
	defer dir.Close()
	return d.markIn(dir)
}

// markIn puts the marker in a directory, unless it was there and is not any more.
func (d *Dir) markIn(dir *os.Root) error {
	known, there := d.name.Load(), d.marker(dir)
	switch {
	case known != nil && !d.isStore(dir):
		return d.elsewhere(dir)
	case known != nil:
		return d.note(*known)
	}
	if there == nil || *there == "" {
		there = new(strings.ToLower(rand.Text()))
		if err := writeWhole(dir, marker, *there+"\n"); err != nil {
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
	beside, err := os.OpenRoot(filepath.Dir(d.record))
	if err != nil {
		return err
	}
	defer beside.Close()
	return writeWhole(beside, filepath.Base(d.record), text)
}

// writeWhole writes a file so that a crash leaves all of it or what was there: with half
// a name no store would be found again.
func writeWhole(dir *os.Root, name, text string) error {
	temporary := unfinished + strings.TrimPrefix(name, ".")
	f, err := dir.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = dir.Rename(temporary, name)
	}
	if err != nil {
		return errors.Join(err, dir.Remove(temporary))
	}
	return syncNames(dir)
}

// syncNames returns when the names in a directory are on the disk.
func syncNames(dir *os.Root) error {
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// readNames returns what is in a directory.
func readNames(dir *os.Root) ([]string, error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	return names, errors.Join(err, f.Close())
}

// marker returns the name in the marker of a directory, or nil if there is none. One that
// cannot be read counts as the one that is expected.
func (d *Dir) marker(dir *os.Root) *string {
	text, err := dir.ReadFile(marker)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return d.name.Load()
	}
	return new(strings.TrimSpace(string(text)))
}

// isStore reports whether a directory is the store's, as far as that is known.
func (d *Dir) isStore(dir *os.Root) bool {
	known, there := d.name.Load(), d.marker(dir)
	return there != nil && (known == nil || *known == *there)
}

// elsewhere is the error of a directory that is not the store's, or of none.
func (d *Dir) elsewhere(dir *os.Root) error {
	what := "the host's disk for archives is not there now"
	if dir != nil && d.marker(dir) != nil {
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
	dir, err := d.open()
	if err != nil {
		return 0, fmt.Errorf("put %s: %w", key, err)
	}
	defer dir.Close()
	if err := d.markIn(dir); err != nil {
		return 0, fmt.Errorf("put %s: %w", key, err)
	}
	temporary := unfinished + rand.Text()
	f, err := dir.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, fmt.Errorf("put %s: %w", key, err)
	}
	size, err = io.Copy(f, &ctxReader{ctx, r})
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = dir.Rename(temporary, fileOf(key))
	}
	if err != nil {
		return size, errors.Join(fmt.Errorf("put %s: %w", key, err), dir.Remove(temporary))
	}
	return size, syncNames(dir)
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
	dir, err := d.open()
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", key, err)
	}
	defer dir.Close()
	// What is not a file, as a pipe, is not waited for.
	f, err := dir.OpenFile(fileOf(key), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, d.missing(dir, key, "open", err)
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
	dir, err := d.open()
	if err != nil {
		return Info{}, fmt.Errorf("stat %s: %w", key, err)
	}
	defer dir.Close()
	return d.statIn(dir, key)
}

func (d *Dir) statIn(dir *os.Root, key string) (Info, error) {
	info, err := dir.Stat(fileOf(key))
	if err != nil {
		return Info{}, d.missing(dir, key, "stat", err)
	}
	return Info{Key: key, Size: info.Size(), ModTime: info.ModTime()}, nil
}

// List implements Store. A file that no Put can have written is passed over.
func (d *Dir) List(_ context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		if err := CheckPrefix(prefix); err != nil {
			yield(Info{}, err)
			return
		}
		dir, err := d.open()
		if err != nil {
			yield(Info{}, fmt.Errorf("list blobs: %w", err))
			return
		}
		defer dir.Close()
		names, err := readNames(dir)
		if err == nil && d.name.Load() != nil && !d.isStore(dir) {
			err = d.elsewhere(dir)
		}
		if err != nil {
			yield(Info{}, fmt.Errorf("list blobs: %w", err))
			return
		}
		for _, name := range names {
			key := strings.ReplaceAll(name, "_", "/")
			if !strings.HasPrefix(key, prefix) || CheckKey(key) != nil {
				continue
			}
			info, err := d.statIn(dir, key)
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
	dir, err := d.open()
	if err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	defer dir.Close()
	err = dir.Remove(fileOf(key))
	if errors.Is(err, fs.ErrNotExist) {
		if !d.isStore(dir) {
			return fmt.Errorf("delete %s: %w", key, d.elsewhere(dir))
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	return syncNames(dir)
}

// Sweep implements Store.
func (d *Dir) Sweep(context.Context) error {
	dir, err := d.open()
	if err != nil {
		return fmt.Errorf("sweep blobs: %w", err)
	}
	defer dir.Close()
	names, err := readNames(dir)
	if err != nil {
		return fmt.Errorf("sweep blobs: %w", err)
	}
	var errs []error
	for _, name := range names {
		if strings.HasPrefix(name, unfinished) {
			errs = append(errs, dir.Remove(name))
		}
	}
	return errors.Join(errs...)
}

// fileOf is the name of the file of a key.
func fileOf(key string) string { return strings.ReplaceAll(key, "/", "_") }

// missing is the error of an operation on a file that could not be found in a directory.
func (d *Dir) missing(dir *os.Root, key, op string, err error) error {
	switch {
	case !errors.Is(err, fs.ErrNotExist):
	case !d.isStore(dir):
		err = d.elsewhere(dir)
	default:
		return NotFound(key, err)
	}
	return fmt.Errorf("%s %s: %w", op, key, err)
}
