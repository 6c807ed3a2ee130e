package stage

import (
	"crypto/rand"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
)

// What a real engine starts is admitted in the Docker driver's tests.
func TestAdmitRefuses(t *testing.T) {
	name := "@" + rand.Text()
	listener, err := listenAbstract(name)
	if err != nil {
		t.Fatal(err)
	}
	defer sys.Close(listener)
	client, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer sys.Close(client)
	if err := unix.Connect(client, &unix.SockaddrUnix{Name: name}); err != nil {
		t.Fatal(err)
	}
	server, _, err := unix.Accept(listener)
	if err != nil {
		t.Fatal(err)
	}
	defer sys.Close(server)
	c := new(Contained)
	if os.Getppid() != 0 && c.Admit(server) {
		t.Error("a process with a parent is admitted")
	}
	if c.Admit(listener) {
		t.Error("a socket without a peer is admitted")
	}
	if c.Admit(-1) {
		t.Error("no socket at all is admitted")
	}
}

func TestSpareThreads(t *testing.T) {
	const n = 40
	SpareThreads(n)
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil || len(threads) < n {
		t.Errorf("%d threads, want %d, %v", len(threads), n, err)
	}
}

func TestEnterContainerNeedsABoot(t *testing.T) {
	for _, boot := range []string{"", "nonsense"} {
		t.Setenv(ContainerBootVar, boot)
		if _, err := EnterContainer(); err == nil {
			t.Errorf("entered with %q", boot)
		}
	}
}

func TestContainedWithoutCount(t *testing.T) {
	if n := (&Contained{oomCount: -1}).OOMKills(); n != 0 {
		t.Errorf("%d kills", n)
	}
}
