package sys_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runtime/linux/sys"
)

func TestOnOtherThread(t *testing.T) {
	first := 0 // goroutines that would have had the first thread
	for range 1000 {
		tid := make(chan int, 2)
		go func() {
			tid <- unix.Gettid()
			sys.OnOtherThread(func() { tid <- unix.Gettid() })
		}()
		if <-tid == unix.Getpid() {
			first++
		}
		if got := <-tid; got == unix.Getpid() {
			t.Fatal("on the first thread")
		}
	}
	if first == 0 {
		t.Log("no goroutine had the first thread")
	}
}
