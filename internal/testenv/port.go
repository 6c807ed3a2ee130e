package testenv

import (
	"testing"

	"golang.org/x/sys/unix"
)

// UnusedPort returns a TCP port on which nothing listens, on any address, and
// nothing can before the test ends.
func UnusedPort(t testing.TB) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Close(fd); err != nil {
			t.Error(err)
		}
	})
	// Bound and not listening: connections are refused, and the port is taken.
	if err := unix.Bind(fd, &unix.SockaddrInet6{}); err != nil {
		t.Fatal(err)
	}
	address, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return address.(*unix.SockaddrInet6).Port
}
