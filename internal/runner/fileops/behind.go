package fileops

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/guard"
)

// behindNice is added to the nice value of what others should not have to wait
// for. It gives a thread a third of the weight of another: less would let whoever keeps
// the processors busy hold up a snapshot, for which programs stand still.
const behindNice = 5

// behind calls do where it comes behind what else the runners of a host have to
// do, on a thread of its own that ends with it: a nice value can only grow. There
// do reads the files of every owner, if the process is root, as whomever it
// reaches files elsewhere.
func behind(do func() error) error {
	done := make(chan error, 1)
	guard.Go(func() {
		runtime.LockOSThread() // for good
		err := stepBack(behindNice)
		if err == nil {
			err = unix.Setfsuid(0) // which changes nothing, and says nothing, without the right to
		}
		if err == nil {
			err = guard.Try(do)
		}
		done <- err
	}, func(err error) { done <- err })
	return <-done
}

// stepBack adds to the nice value of the calling thread.
func stepBack(by int) error {
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return os.NewSyscallError("getpriority", err)
	}
	nice := 20 - raw // the system call makes it a number that is no error
	return os.NewSyscallError("setpriority", unix.Setpriority(unix.PRIO_PROCESS, 0, nice+by))
}
