package child

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/protection"
)

// HoldSignals makes the signals that a process of the sandbox may send to PID
// 1 harmless, and returns a function that undoes it. The kernel protects a PID
// 1 only from signals without a handler, and the Go runtime installs handlers
// for nearly all.
func HoldSignals() (release func()) {
	if protection.Off(protection.RunnerSignals) {
		return func() {}
	}
	for sig := unix.Signal(1); sig <= 64; sig++ {
		switch sig {
		case unix.SIGKILL, unix.SIGSTOP, unix.SIGCHLD, unix.SIGURG:
			// The first two cannot be, the third is the Reaper's, the last is
			// how the runtime preempts goroutines.
		case unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGTRAP, unix.SIGABRT, unix.SIGSYS:
			// Ignored, a real fault would loop; see below.
		default:
			signal.Ignore(sig)
		}
	}
	// Notified, these are harmless when somebody sent them and still end the
	// process when it caused them itself.
	sink := make(chan os.Signal, 1)
	signal.Notify(sink, unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGTRAP, unix.SIGABRT, unix.SIGSYS)
	return func() { signal.Reset() }
}
