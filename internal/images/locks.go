package images

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Two locks make one directory safe for several processes. The kernel frees
// them when a process dies.
//
//	lock.use     shared by every import from its first file to its last, so
//	             that layers which no image names yet are not taken for rubbish;
//	             exclusive while such layers and dead staging are swept.
//	lock.commit  exclusive for the moment in which names and images change.
const (
	useLock    = "lock.use"
	commitLock = "lock.commit"
)

type lock struct{ f *os.File }

// acquire takes a lock in the mode of flock(2). With LOCK_NB it returns
// errBusy instead of waiting.
func (s *Store) acquire(name string, mode int) (lock, error) {
	f, err := os.OpenFile(s.path(name), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return lock{}, fmt.Errorf("lock image store: %w", err)
	}
	for {
		err = unix.Flock(int(f.Fd()), mode)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		return lock{}, errors.Join(errBusy, f.Close())
	}
	if err != nil {
		return lock{}, errors.Join(fmt.Errorf("lock image store: %w", err), f.Close())
	}
	return lock{f: f}, nil
}

var errBusy = errors.New("image store is in use")

func (l lock) release() error { return l.f.Close() }
