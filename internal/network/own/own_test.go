package own

import (
	"errors"
	"net"
	"net/netip"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// The host's are all that its local table has, and not what interfaces are configured with alone.
func TestHas(t *testing.T) {
	t.Parallel()
	addresses := map[string]bool{"127.0.0.1": true, "127.7.7.7": true, "::ffff:127.0.0.1": true, "192.0.2.1": false, "2001:db8::1": false}
	found, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range found {
		addresses[netip.MustParsePrefix(a.String()).Addr().String()] = true
	}
	for text, want := range addresses {
		if got := Has(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// An address is the host's at once, and so are networks that a route makes local.
func TestChangesHoldAtOnce(t *testing.T) {
	testenv.NeedsRoot(t)
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread, and its namespace, end with the goroutine
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return err
			}
			lo, err := netlink.LinkByName("lo")
			if err != nil {
				return err
			}
			if err := netlink.LinkSetUp(lo); err != nil {
				return err
			}
			check := func(when string, want map[string]bool) {
				for text, own := range want {
					if got := Has(netip.MustParseAddr(text)); got != own {
						t.Errorf("%s: %s: %v, want %v", when, text, got, own)
					}
				}
			}
			check("at first", map[string]bool{"198.51.100.7": false, "203.0.113.9": false, "2001:db8::9": false})
			address, err := netlink.ParseAddr("198.51.100.7/32")
			if err != nil {
				return err
			}
			errs := netlink.AddrAdd(lo, address)
			for _, text := range []string{"203.0.113.0/24", "2001:db8::/64"} {
				_, network, err := net.ParseCIDR(text)
				route := &netlink.Route{LinkIndex: lo.Attrs().Index, Dst: network, Type: unix.RTN_LOCAL, Scope: unix.RT_SCOPE_HOST, Table: unix.RT_TABLE_LOCAL}
				errs = errors.Join(errs, err, netlink.RouteAdd(route))
			}
			check("added", map[string]bool{"198.51.100.7": true, "198.51.100.8": false, "203.0.113.9": true, "2001:db8::9": true, "2001:db8:1::9": false})
			errs = errors.Join(errs, netlink.AddrDel(lo, address))
			check("removed", map[string]bool{"198.51.100.7": false})
			return errs
		}()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestOfInterfaces(t *testing.T) {
	t.Parallel()
	if !isOfInterface(netip.MustParseAddr("127.0.0.1")) || isOfInterface(netip.MustParseAddr("192.0.2.1")) {
		t.Error("the interfaces have other addresses")
	}
}
