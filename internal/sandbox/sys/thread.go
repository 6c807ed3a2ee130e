package sys

import (
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/guard"
)

// OnOtherThread calls do on a thread that nothing else runs on, that ends with it,
// and that is never the process's first one: that cannot end, and the kernel
// takes it for the process where it looks at one thread only, as in /proc/self or
// when a signal is sent. It is for a goroutine of its own, which it may leave
// before do has returned.
func OnOtherThread(do func()) {
	runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
	if unix.Gettid() != unix.Getpid() {
		do()
		return
	}
	other := make(chan struct{})
	guard.Go(func() { // elsewhere, for this thread is taken
		runtime.LockOSThread()
		close(other)
		do()
	}, func(error) {})
	<-other
	runtime.UnlockOSThread()
}
