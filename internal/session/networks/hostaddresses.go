package networks

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// hostAddresses are the host's own, read again when they are some seconds old.
type hostAddresses struct {
	mu   sync.Mutex
	read time.Time               // guarded by mu
	all  map[netip.Addr]struct{} // guarded by mu
}

const addressesAge = 5 * time.Second

// has reports whether an address is the host's. Where the host does not tell, those
// of before count.
func (h *hostAddresses) has(addr netip.Addr) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.read) > addressesAge {
		h.refresh()
	}
	_, own := h.all[addr.WithZone("").Unmap()]
	return own
}

// refresh asks the host. The caller holds mu.
func (h *hostAddresses) refresh() {
	h.read = time.Now()
	found, err := net.InterfaceAddrs()
	if err != nil {
		return
	}
	h.all = make(map[netip.Addr]struct{}, len(found))
	for _, a := range found {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			h.all[prefix.Addr().WithZone("").Unmap()] = struct{}{}
		}
	}
}
