package sys

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// sealPatience bounds how long Seal waits. Whatever holds a page for a moment
// is done in a fraction of it.
const sealPatience = 10 * time.Second

// Seal makes a memfd one that nobody can write to, whatever they open it for,
// and that keeps its seals. The kernel refuses (EBUSY, after 150 ms) while
// anything holds one of the file's pages, as its own compaction and reclaim do
// for a moment on a host short of memory: Seal asks again.
func Seal(fd int) error {
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	deadline := time.Now().Add(sealPatience)
	for {
		err := retry("fcntl F_ADD_SEALS", func() error {
			_, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
			return err
		})
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(10 * time.Millisecond) //nolint:forbidigo // the kernel tells nobody when a page is let go
	}
}
