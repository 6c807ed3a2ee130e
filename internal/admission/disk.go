package admission

import (
	"errors"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

const (
	probeEvery    = 2 * time.Second  // as anybody may ask
	probePatience = 10 * time.Second // with a disk that does not answer
)

// Disk tells whether directories can be written, and whether one is full, which is
// less: what there is can be used then, and removed.
type Disk struct {
	dirs []string

	mu      sync.Mutex
	since   time.Time // guarded by mu; when the last probe began
	probing bool      // guarded by mu
	last    error     // guarded by mu; what the last probe that ended has found
	full    bool      // guarded by mu; the same
}

// NewDisk returns a Disk of dirs.
func NewDisk(dirs ...string) *Disk { return &Disk{dirs: dirs} }

// Writable returns nil if all directories can be written, and Unavailable with
// the reason if one cannot, as it was at most 2 seconds ago. It writes a byte to
// a file without a name, of which nothing is left.
func (d *Disk) Writable() error {
	d.mu.Lock()
	since, probing, last := d.since, d.probing, d.last
	if probing || time.Since(since) < probeEvery {
		d.mu.Unlock()
		if probing && time.Since(since) > probePatience {
			return errdefs.New(errdefs.Unavailable, "the file system of data_dir does not answer")
		}
		return last
	}
	d.since, d.probing = time.Now(), true
	d.mu.Unlock()
	err := d.probe()
	full := err == nil && d.short()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last, d.full, d.probing = err, full, false
	return err
}

// Full reports whether there was no room left in a directory when Writable looked.
func (d *Disk) Full() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.full
}

func (d *Disk) short() bool {
	return slices.ContainsFunc(d.dirs, func(dir string) bool {
		left, err := freeSpace(dir)
		return err == nil && left < ballastLeast
	})
}

func (d *Disk) probe() error {
	for _, dir := range d.dirs {
		err := writeTo(dir)
		switch {
		case errors.Is(err, syscall.EROFS):
			return errdefs.Wrap(err, errdefs.Unavailable, "the file system of data_dir is read-only, so nothing can be made or removed; sessions that run go on. Find out why with dmesg, and mount it writable again")
		case err != nil:
			var why syscall.Errno // and no path: anybody may ask
			errors.As(err, &why)
			return errdefs.Wrap(err, errdefs.Unavailable, "data_dir cannot be written: %s", why)
		}
	}
	return nil
}

// tmpfile is O_TMPFILE, for which the package syscall has no name.
const tmpfile = 0x400000 | syscall.O_DIRECTORY

// writeTo writes to the file system of dir and leaves nothing there.
func writeTo(dir string) (err error) {
	f, err := os.OpenFile(dir, os.O_RDWR|tmpfile, 0o600)
	switch {
	case errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.EISDIR), isDiskFull(err):
		return readOnly(dir) // such files are not for every file system
	case err != nil:
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write([]byte{0}); !isDiskFull(err) {
		return err
	}
	return nil
}

func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// readOnly asks the file system itself.
func readOnly(dir string) error {
	const flag = 1 // ST_RDONLY
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	if fs.Flags&flag != 0 {
		return &os.PathError{Op: "write", Path: dir, Err: syscall.EROFS}
	}
	return nil
}
