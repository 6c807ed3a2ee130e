package fileops

import (
	"errors"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// nice is that of the calling thread.
func nice(t *testing.T) int {
	t.Helper()
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	return 20 - raw // as the system call has it
}

// What comes behind has a thread of its own, and no other is slowed down.
func TestBehind(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := nice(t)
	broken := errors.New("broken for the test")
	inside, thread := 0, 0
	err := behind(func() error {
		inside, thread = nice(t), unix.Gettid()
		return broken
	})
	if err != broken || inside != min(before+behindNice, 19) || thread == unix.Gettid() {
		t.Errorf("nice value %d in thread %d: %v", inside, thread, err)
	}
	if after := nice(t); after != before {
		t.Errorf("the caller has nice value %d, and had %d", after, before)
	}
	for range 100 { // a goroutine that took over its thread would have its nice value
		n := make(chan int)
		go func() { n <- nice(t) }()
		if got := <-n; got != before {
			t.Fatalf("another goroutine has nice value %d", got)
		}
	}
}
