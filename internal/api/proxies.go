package api

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Proxies are the networks of those that the operator trusts to say for whom they ask, in
// X-Forwarded-For. Everybody else can write there what they like.
type Proxies []netip.Prefix

// Trust reports whether an address is that of such a proxy.
func (p Proxies) Trust(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(p, func(network netip.Prefix) bool { return network.Contains(a) })
}

// remote is who has made a request: whose connection it is, or, where that is a proxy's,
// the last address that no proxy of ours has written. What comes before that in the header
// is the client's own word.
func (p Proxies) remote(r *http.Request) string {
	last := r.RemoteAddr
	if len(p) == 0 {
		return last
	}
	hops := strings.Split(strings.Join(r.Header["X-Forwarded-For"], ","), ",")
	for _, hop := range slices.Backward(hops) {
		if a, ok := addressIn(last); !ok || !p.Trust(a) {
			return last
		}
		a, ok := addressIn(strings.TrimSpace(hop))
		if !ok {
			return last
		}
		last = a.String()
	}
	return last
}

// addressIn reads an address with or without a port.
func addressIn(text string) (netip.Addr, bool) {
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}
	a, err := netip.ParseAddr(strings.Trim(text, "[]"))
	return a, err == nil
}
