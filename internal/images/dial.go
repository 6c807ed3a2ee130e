package images

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// dialer connects to a registry, and to where the registry leads: the addresses that it redirects to, and
// the one that gives out its tokens. Those are no nearer to this host than the registry itself
// is, so that no registry has this host ask its own services, or those of its network.
type dialer struct {
	registry string   // as it is called
	at       []string // its host and port; both usual ones if it names none

	mu      sync.Mutex
	proxies map[string]bool // guarded by mu; hosts and ports, which are not the registry's choice
	nearest distance        // guarded by mu; that the registry may lead to
	found   bool            // guarded by mu; nearest is the registry's
}

func newDialer(of name.Repository) *dialer {
	d := &dialer{registry: of.RegistryStr(), proxies: map[string]bool{}, nearest: far}
	if _, _, err := net.SplitHostPort(d.registry); err == nil {
		d.at = []string{d.registry}
		return d
	}
	host := strings.Trim(d.registry, "[]")
	d.at = []string{net.JoinHostPort(host, portOf("https")), net.JoinHostPort(host, portOf("http"))}
	return d
}

// portOf is the port of addresses that name none.
func portOf(scheme string) string {
	return cmp.Or(map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[scheme], "443")
}

// proxy is http.ProxyFromEnvironment, and remembers what it says.
func (d *dialer) proxy(r *http.Request) (*url.URL, error) {
	through, err := http.ProxyFromEnvironment(r)
	if through != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.proxies[net.JoinHostPort(through.Hostname(), cmp.Or(through.Port(), portOf(through.Scheme)))] = true
	}
	return through, err
}

const dialTimeout = 30 * time.Second

// dial connects to a host. The address that a name stands for is checked when it is dialled, so
// that no name can hide it.
func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if !slices.ContainsFunc(d.at, func(one string) bool { return strings.EqualFold(one, address) }) {
		return (&net.Dialer{Timeout: dialTimeout, Control: d.refuse(address)}).DialContext(ctx, network, address)
	}
	conn, err := (&net.Dialer{Timeout: dialTimeout, Control: refuseLinkLocal}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if at, err := netip.ParseAddrPort(conn.RemoteAddr().String()); err == nil {
		d.isAt(distanceOf(at.Addr()))
	}
	return conn, nil
}

// isAt notes how near a registry is: as its farthest address, if it has several. Somebody's name
// server could else have it be here for a moment.
func (d *dialer) isAt(where distance) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.found || where < d.nearest {
		d.nearest, d.found = where, true
	}
}

// refuse checks an address that a host stands for which is not the registry.
func (d *dialer) refuse(host string) func(network, address string, _ syscall.RawConn) error {
	return func(network, address string, conn syscall.RawConn) error {
		if err := refuseLinkLocal(network, address, conn); err != nil {
			return err
		}
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("dial %s: %w", address, err)
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if where := distanceOf(to.Addr()); where > d.nearest && !d.proxies[host] {
			return errdefs.New(errdefs.Unprocessable, "the registry %s leads to %s, an address of %s, where it is not itself", d.registry, to, where)
		}
		return nil
	}
}

// refuseLinkLocal keeps a registry, or a redirect of it, from making this host
// ask its cloud's metadata service. The address is the one being dialled, so
// no name can hide it.
func refuseLinkLocal(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("dial %s: %w", address, err)
	}
	if ip := to.Addr().Unmap(); ip.IsLinkLocalUnicast() || ip == awsMetadata6 {
		return errdefs.New(errdefs.Unprocessable, "the registry leads to %s, a link-local address", ip)
	}
	return nil
}

var awsMetadata6 = netip.MustParseAddr("fd00:ec2::254")

// distance is how near an address is to this host, the farthest first.
type distance int

const (
	far  distance = iota // the internet
	near                 // a private network
	here                 // this host
)

func (d distance) String() string {
	return [...]string{"the internet", "a private network", "this host"}[d]
}

// shared is of private networks of providers, by RFC 6598.
var shared = netip.MustParsePrefix("100.64.0.0/10")

func distanceOf(ip netip.Addr) distance {
	ip = ip.WithZone("").Unmap()
	switch {
	case ip.IsLoopback(), ip.IsUnspecified():
		return here
	case ip.IsPrivate(), shared.Contains(ip):
		return near
	}
	return far
}
