package testenv

import (
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// UnusedPort returns a TCP port on which nothing listens, on any address, and
// nothing can before the test ends.
func UnusedPort(t testing.TB) int {
	t.Helper()
	// Of both families where there are both. Bound and not listening:
	// connections are refused, and the port is taken.
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	var address unix.Sockaddr = &unix.SockaddrInet6{}
	if err != nil {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		address = &unix.SockaddrInet4{}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Close(fd); err != nil {
			t.Error(err)
		}
	})
	if err := unix.Bind(fd, address); err != nil {
		t.Fatal(err)
	}
	if address, err = unix.Getsockname(fd); err != nil {
		t.Fatal(err)
	}
	if six, ok := address.(*unix.SockaddrInet6); ok {
		return six.Port
	}
	return address.(*unix.SockaddrInet4).Port
}

// OwnIP is a loopback address that tests of no other process have.
func OwnIP() net.IP {
	pid := os.Getpid()
	return net.IPv4(127, byte(1+pid>>8&127), byte(pid), 1)
}
