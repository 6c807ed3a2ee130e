package sys_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
)

// caller and chosen are the thread that has called OnOtherThread, and the one
// that was chosen, while the runtime initialised this package: it does that on
// the first thread.
var caller, chosen = callFromFirst()

func callFromFirst() (caller, chosen int) {
	thread := make(chan int, 1)
	sys.OnOtherThread(func() { thread <- unix.Gettid() })
	return unix.Gettid(), <-thread
}

func TestOnOtherThread(t *testing.T) {
	if caller != unix.Getpid() {
		t.Fatal("it was not called on the first thread: nothing was tried")
	}
	if chosen == caller {
		t.Error("called on the first thread, it stays there")
	}
	thread := make(chan int)
	for range 1000 {
		go sys.OnOtherThread(func() { thread <- unix.Gettid() })
		if <-thread == unix.Getpid() {
			t.Fatal("on the first thread")
		}
	}
}
