package door

import (
	"os"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestFirstThreadStays: the first thread of a process cannot end, so one that went into
// a namespace would stay there, and hold it, as long as the daemon lives.
func TestFirstThreadStays(t *testing.T) {
	testenv.NeedsRoot(t)
	netns := namespaceOfTest(t)
	before, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	var first atomic.Bool
	var all sync.WaitGroup
	for range 2000 { // at once, so that every thread has something to do
		all.Go(func() {
			err := within(netns, func() error {
				if unix.Gettid() == unix.Getpid() {
					first.Store(true)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	after, err := os.Readlink("/proc/self/ns/net")
	if err != nil || first.Load() || after != before {
		t.Errorf("the first thread was taken (%v) and is in %s, was in %s; %v", first.Load(), after, before, err)
	}
}

// namespaceOfTest makes an empty one.
func namespaceOfTest(t *testing.T) *os.File {
	t.Helper()
	made := make(chan error)
	var netns *os.File
	go func() {
		goruntime.LockOSThread() // and never unlock: the thread ends with the goroutine
		err := unix.Unshare(syscall.CLONE_NEWNET)
		if err == nil {
			netns, err = os.Open("/proc/thread-self/ns/net")
		}
		made <- err
	}()
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
