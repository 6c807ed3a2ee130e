package door

import (
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

// TestDoorOpensAgain closes the door of a namespace and opens it again, while the
// process starts others: these hold copies of its sockets until they are programs.
func TestDoorOpensAgain(t *testing.T) {
	testenv.NeedsRoot(t)
	netns := namespaceOfTest(t)
	up := func() error { return netlink.LinkSetUp(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: loopback}}) }
	if err := within(netns, up); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var starting sync.WaitGroup
	// Many variables make the way from the fork to the program long.
	env := strings.Split(strings.Repeat("A="+strings.Repeat("x", 1<<10)+" ", 1<<9), " ")
	for range 4 {
		starting.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					program := exec.Command("true")
					program.Env = env
					if err := program.Run(); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	defer starting.Wait()
	defer close(done)
	for i := range 300 {
		fd, err := unix.FcntlInt(netns.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		d, err := Open(t.Context(), os.NewFile(uintptr(fd), "netns"))
		if err != nil {
			t.Fatalf("time %d: %v", i, err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
