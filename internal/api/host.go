package api

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/protection"
)

// Hosts says which Host headers are meant for this daemon. A web page can make
// a browser reach a loopback address under the page's own name (DNS
// rebinding), but it cannot choose another Host header for that.
//
// Loopback addresses and localhost are always ours.
type Hosts struct {
	names    map[string]bool
	anyIP    bool // listening on every address: any literal address may be ours
	listenIP netip.Addr
}

// NewHosts allows the address that the daemon listens on and the host names
// configured beside it. A listener on the unspecified address allows every
// literal IP address, which no rebinding can use, but no name.
func NewHosts(listen string, names ...string) Hosts {
	h := Hosts{names: make(map[string]bool)}
	for _, name := range names {
		h.names[strings.ToLower(name)] = true
	}
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		host = listen
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case host == "" || (err == nil && ip.IsUnspecified()):
		h.anyIP = true
	case err == nil:
		h.listenIP = ip.Unmap()
	default:
		h.names[strings.ToLower(host)] = true
	}
	return h
}

// check refuses a request for somebody else.
func (h Hosts) check(r *http.Request) error {
	if h.allows(hostname(r.Host)) || protection.Off(protection.HostHeader) {
		return nil
	}
	return errdefs.New(errdefs.PermissionDenied, "the Host header names a host that this daemon does not serve; use its address, or add the name to allowed_hosts in its configuration")
}

func (h Hosts) allows(host string) bool {
	if host == "localhost" || h.names[host] {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	ip = ip.Unmap()
	return h.anyIP || ip.IsLoopback() || ip == h.listenIP
}

// hostname is a Host header without its port, in lower case.
func hostname(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil { // no port
		host = strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
	}
	return strings.ToLower(host)
}

// checkOrigin refuses what another web site's page makes a browser send,
// reads included, with two exceptions: following a link, and origins that the
// operator has allowed. Programs that are no browser send neither header.
func checkOrigin(r *http.Request) error {
	errCross := func() error {
		return errdefs.New(errdefs.PermissionDenied, "requests from other web sites are refused; call the API from a program or from its own origin, or add the page's to cors_origins in the configuration")
	}
	if From(r.Context()).otherOrigin || protection.Off(protection.Origin) {
		return nil
	}
	if r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Upgrade") == "" {
		return nil
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
	default:
		return errCross()
	}
	if len(r.Header["Origin"]) > 0 && !fromOwnOrigin(r) {
		return errCross()
	}
	return nil
}

// fromOwnOrigin reports whether the Origin of a request is the host that it is sent to.
func fromOwnOrigin(r *http.Request) bool {
	origins := r.Header["Origin"]
	if len(origins) != 1 {
		return false
	}
	u, err := url.Parse(origins[0])
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

// fromOwnPage reports whether a browser says that a page of ours makes it send r.
func fromOwnPage(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Site") == "same-origin" || fromOwnOrigin(r)
}
