package network

import (
	"net/netip"

	"github.com/sandkasten/sandkasten/internal/protection"
)

// addressKind says who may be reached at an address.
type addressKind int

const (
	public    addressKind = iota
	private               // of a network that is not the internet's: only where the operator allows it
	forbidden             // of the host, of a link or of a metadata service: never
)

// ranges are those that are not public. The first that has an address decides.
// Sources: RFC 6890 and the registries of special-purpose addresses of IANA; the
// metadata services of Amazon, Google, Azure, Alibaba (100.100.100.200), Oracle
// (192.0.0.192) and Amazon's containers (169.254.170.2).
var ranges = []struct {
	prefix netip.Prefix
	kind   addressKind
}{
	{netip.MustParsePrefix("0.0.0.0/8"), forbidden},
	{netip.MustParsePrefix("127.0.0.0/8"), forbidden},
	{netip.MustParsePrefix("169.254.0.0/16"), forbidden},
	{netip.MustParsePrefix("192.0.0.0/24"), forbidden},
	{netip.MustParsePrefix("100.100.100.200/32"), forbidden},
	{netip.MustParsePrefix("168.63.129.16/32"), forbidden}, // Azure's, which looks public
	{netip.MustParsePrefix("224.0.0.0/3"), forbidden},      // multicast, reserved, broadcast
	{netip.MustParsePrefix("10.0.0.0/8"), private},
	{netip.MustParsePrefix("100.64.0.0/10"), private},
	{netip.MustParsePrefix("172.16.0.0/12"), private},
	{netip.MustParsePrefix("192.168.0.0/16"), private},
	{netip.MustParsePrefix("198.18.0.0/15"), private},

	{netip.MustParsePrefix("fd00:ec2::/32"), forbidden},
	{netip.MustParsePrefix("fd20:ce::254/128"), forbidden},
	{netip.MustParsePrefix("fc00::/7"), private},
	{netip.MustParsePrefix("64:ff9b:1::/48"), private},
	// All other addresses of IPv6 outside the global unicast range.
	{netip.MustParsePrefix("2000::/3"), public},
	{netip.MustParsePrefix("::/0"), forbidden},
}

// rangeOf is the kind of an address. One that has another one inside is of that
// one's kind.
func rangeOf(addr netip.Addr) addressKind {
	if protection.Off(protection.AddressRanges) {
		return public
	}
	addr = plain(addr)
	if !addr.IsValid() {
		return forbidden
	}
	for _, inner := range translated(addr) {
		if rangeOf(inner) == forbidden {
			return forbidden
		}
	}
	for _, r := range ranges {
		if r.prefix.Contains(addr) {
			return r.kind
		}
	}
	return public
}

var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	localNAT64 = netip.MustParsePrefix("64:ff9b:1::/48")
	sixTo4     = netip.MustParsePrefix("2002::/16")
)

// translated are the IPv4 addresses that translators of a local network may take out
// of addr: how long their prefix is only they know. Sources: RFC 8215, and RFC 6052,
// section 2.2.
func translated(addr netip.Addr) []netip.Addr {
	if !localNAT64.Contains(addr) {
		return nil
	}
	b := addr.As16()
	var found []netip.Addr
	for _, inner := range [][4]byte{{b[6], b[7], b[9], b[10]}, {b[7], b[9], b[10], b[11]}, {b[9], b[10], b[11], b[12]}, {b[12], b[13], b[14], b[15]}} {
		if inner[0] != 0 { // else these are bytes of padding
			found = append(found, netip.AddrFrom4(inner))
		}
	}
	if len(found) == 0 {
		return []netip.Addr{netip.IPv4Unspecified()}
	}
	return found
}

// plain is the address that is meant: without a zone, and the IPv4 address inside
// one of IPv6 that leads to it.
func plain(addr netip.Addr) netip.Addr {
	addr = addr.WithZone("").Unmap()
	if !addr.Is6() {
		return addr
	}
	bytes := addr.As16()
	switch {
	case nat64.Contains(addr):
		return netip.AddrFrom4([4]byte(bytes[12:16]))
	case sixTo4.Contains(addr):
		return netip.AddrFrom4([4]byte(bytes[2:6]))
	}
	return addr
}
