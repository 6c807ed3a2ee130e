package admission

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

const (
	ballastName  = "reserve" // in the data directory
	ballastBytes = 16 << 20
	ballastLeast = 1 << 20     // less is of no use
	ballastEvery = time.Second // between attempts to take more
)

// Ballast is a file that holds room on the disk of the data directory. A daemon
// that starts on a full disk gives it back, so that it can open its database and
// sessions can be removed; what is left of it is held again at once, for the next
// start. While it is not whole no session is made.
type Ballast struct {
	path string

	mu   sync.Mutex
	held int64     // guarded by mu
	at   time.Time // guarded by mu; of the last attempt to take more
}

// NewBallast returns a Ballast in dir, of what an earlier process has held there.
func NewBallast(dir string) *Ballast {
	b := &Ballast{path: filepath.Join(dir, ballastName)}
	var st syscall.Stat_t
	if syscall.Stat(b.path, &st) == nil {
		b.held = st.Blocks * 512
	}
	return b
}

// GiveBack frees what is held, if the disk has no room otherwise, and reports
// whether it did.
func (b *Ballast) GiveBack() (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	left, err := freeSpace(filepath.Dir(b.path))
	if err != nil || left >= ballastLeast || b.held == 0 {
		return false, err
	}
	if err := os.Remove(b.path); err != nil {
		return false, err
	}
	b.held = 0
	return true, nil
}

// Spare frees half of what is held for a deletion that finds no room, and reports
// whether it did. The last MiB is the next start's.
func (b *Ballast) Spare() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held <= ballastLeast || os.Truncate(b.path, b.held/2) != nil {
		return false
	}
	b.held /= 2
	return true
}

// Hold takes as much as there is room for, and leaves as much again.
func (b *Ballast) Hold() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.hold()
}

// hold is Hold for a caller who holds mu.
func (b *Ballast) hold() error {
	b.at = time.Now()
	left, err := freeSpace(filepath.Dir(b.path))
	if err != nil {
		return err
	}
	for size := int64(ballastBytes); size >= ballastLeast && size > b.held; size /= 2 {
		if left < 2*size-b.held {
			continue
		}
		err := b.take(size)
		if err == nil {
			b.held = size
			return nil
		}
		if !isDiskFull(err) {
			return err
		}
	}
	return nil
}

// take makes the file so large, with blocks of its own.
func (b *Ballast) take(size int64) (err error) {
	f, err := os.OpenFile(b.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	err = syscall.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, syscall.EOPNOTSUPP) { // a file of zeros does the same, but where they are packed
		_, err = f.WriteAt(make([]byte, size), 0)
	}
	if err != nil && b.held == 0 {
		err = errors.Join(err, os.Remove(b.path))
	}
	return err
}

// Forget has the next call of Whole try at once: somebody has made room.
func (b *Ballast) Forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at = time.Time{}
}

// Whole returns nil if all is held, which it tries to bring about, and Unavailable
// if the disk has no room for it.
func (b *Ballast) Whole(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held < ballastBytes && time.Since(b.at) >= ballastEvery {
		if err := b.hold(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return errdefs.Wrap(err, errdefs.Unavailable, "data_dir cannot be written; the daemon's log says why")
		}
	}
	if b.held < ballastBytes {
		return errdefs.Wrap(errdefs.ErrDiskShort, errdefs.Unavailable, "the disk of data_dir is full, so no session can be made or started; destroy sessions, remove snapshots, workspaces and images, or enlarge the disk")
	}
	return nil
}
