// Package netns is what drivers share of a sandbox's network: how its namespace is
// found from the host, and what the sandbox is told of its name servers.
package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strings"
	"syscall"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// Resolvers are the addresses of the name servers in a sandbox: one of IPv4 and one
// of IPv6. Both are reserved for documentation, so they hide no real host.
var Resolvers = [2]netip.Addr{netip.MustParseAddr("192.0.2.53"), netip.MustParseAddr("2001:db8::53")}

// ResolverOptions are the options line of a sandbox's /etc/resolv.conf. The timeout is
// longer than the five seconds that our resolver gives the host's, so that a program
// gets its answer, whatever that is; musl takes the timeout for all attempts together.
// With edns0 glibc takes more than 512 bytes of a datagram.
var ResolverOptions = []string{"timeout:6", "attempts:2", "edns0"}

// ResolvConf is the text of /etc/resolv.conf in a sandbox. It is the same whatever the
// sandbox may reach, since that changes while the sandbox lives.
func ResolvConf() string {
	var text strings.Builder
	for _, server := range Resolvers {
		fmt.Fprintf(&text, "nameserver %s\n", server)
	}
	fmt.Fprintf(&text, "options %s\n", strings.Join(ResolverOptions, " "))
	return text.String()
}

// Open opens the network namespace of the process pid. It then calls check, which
// returns an error unless the process is still the one that is meant: its number may
// have become another's before the namespace was open. Open returns NotFound when the
// process has ended, and an fs.ErrPermission when it lives and may not be looked into.
func Open(pid int, check func() error) (*os.File, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH):
		return nil, errdefs.Wrap(err, errdefs.NotFound, "the sandbox is not running")
	case errors.Is(err, fs.ErrPermission): // the kernel may say so of one that is ending, too
		return nil, errors.Join(check(), err)
	case err != nil:
		return nil, fmt.Errorf("open the network namespace of a sandbox: %w", err)
	}
	if err := errors.Join(check(), checkApart(f)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// checkApart refuses our own namespace: what is done to that of a sandbox would cut
// this host off its network.
func checkApart(netns *os.File) error {
	its, err := netns.Stat()
	if err != nil {
		return err
	}
	// Not that of the process, which is its first thread's: that may be elsewhere.
	ours, err := os.Stat("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	if os.SameFile(its, ours) {
		return errors.New("the sandbox has no network namespace of its own")
	}
	return nil
}
