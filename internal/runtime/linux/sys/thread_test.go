package sys_test

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runtime/linux/sys"
)

// It keeps TestMain on the process's first thread.
func init() { runtime.LockOSThread() }

// fromFirst is the thread OnOtherThread chose when the first one called it.
var fromFirst int

func TestMain(m *testing.M) {
	if unix.Gettid() != unix.Getpid() {
		panic("TestMain is not on the first thread")
	}
	chosen := make(chan int, 1)
	sys.OnOtherThread(func() { chosen <- unix.Gettid() })
	fromFirst = <-chosen
	os.Exit(m.Run())
}

func TestOnOtherThread(t *testing.T) {
	if fromFirst == unix.Getpid() {
		t.Error("called on the first thread, it stays there")
	}
	chosen := make(chan int)
	for range 1000 {
		go sys.OnOtherThread(func() { chosen <- unix.Gettid() })
		if <-chosen == unix.Getpid() {
			t.Fatal("on the first thread")
		}
	}
}
