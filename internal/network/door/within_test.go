package door

import (
	"errors"
	"os"
	goruntime "runtime"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// onFirstThread is what a test has done on the first thread. That may be another
// goroutine's afterwards, so it is done once.
var (
	onFirstThread = keepFirstThread()
	once          sync.Once
	called, taken bool // within on the first thread, and that by it
	errWithin     error
)

// keepFirstThread leaves the first thread to the main goroutine, which initializes packages.
func keepFirstThread() chan func() {
	goruntime.LockOSThread()
	return make(chan func())
}

// withinFromFirstThread reports whether within takes the first thread if it is called there.
func withinFromFirstThread(netns *os.File) (bool, error) {
	once.Do(func() {
		defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(1)) // so that a goroutine begins where the one waits that has started it
		done := make(chan struct{})
		onFirstThread <- func() {
			called = unix.Gettid() == unix.Getpid()
			errWithin = within(netns, func() error { taken = unix.Gettid() == unix.Getpid(); return nil })
			close(done)
		}
		<-done
	})
	if !called {
		return false, errors.Join(errors.New("the first thread was another goroutine's"), errWithin)
	}
	return taken, errWithin
}

func TestMain(m *testing.M) {
	go testenv.Main(m, goleak.IgnoreTopFunction("github.com/sandkasten/sandkasten/internal/network/door.TestMain"))
	do := <-onFirstThread
	goruntime.UnlockOSThread() // or what do starts would be on another thread anyway
	do()
	select {}
}

// TestFirstThreadStays: the first thread of a process cannot end, so one that went into
// a namespace would stay there, and hold it, as long as the daemon lives.
func TestFirstThreadStays(t *testing.T) {
	testenv.NeedsRoot(t)
	before, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	taken, err := withinFromFirstThread(namespaceOfTest(t))
	if err != nil {
		t.Fatal(err)
	}
	after, err := os.Readlink("/proc/self/ns/net")
	if err != nil || taken || after != before {
		t.Errorf("the first thread was taken (%v) and is in %s, was in %s; %v", taken, after, before, err)
	}
}

// namespaceOfTest makes an empty one.
func namespaceOfTest(t *testing.T) *os.File {
	t.Helper()
	made := make(chan error)
	var netns *os.File
	go sys.OnOtherThread(func() {
		err := unix.Unshare(syscall.CLONE_NEWNET)
		if err == nil {
			netns, err = os.Open("/proc/thread-self/ns/net")
		}
		made <- err
	})
	if err := <-made; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := netns.Close(); err != nil {
			t.Error(err)
		}
	})
	return netns
}
