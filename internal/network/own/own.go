// Package own knows which addresses are this host's. What may be reached there is the
// policies' business.
package own

import (
	"errors"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Has reports whether what is sent to an address stays on this host now. It asks the kernel for the
// way there, as a connection does, and remembers nothing: an address is the host's from the
// moment in which somebody adds it, and a route can make whole networks the host's that no
// interface has. Where the kernel does not tell, the addresses of the interfaces count, and
// where it tells nothing at all, all are the host's.
func Has(addr netip.Addr) bool {
	addr = addr.WithZone("").Unmap()
	if !addr.IsValid() {
		return true
	}
	ways, err := netlink.RouteGet(addr.AsSlice())
	switch {
	case err == nil:
		return slices.ContainsFunc(ways, func(r netlink.Route) bool { return r.Type != unix.RTN_UNICAST })
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH):
		return false
	}
	return isOfInterface(addr)
}

func isOfInterface(addr netip.Addr) bool {
	found, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(found, func(a net.Addr) bool {
		prefix, err := netip.ParsePrefix(a.String())
		return err == nil && prefix.Addr().WithZone("").Unmap() == addr
	})
}
