package api

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/headers"
	"github.com/sandkasten/sandkasten/internal/protection"
)

// Connections bounds how many connections clients have open. It is a collector
// of metrics.
type Connections struct {
	kept    *keptConns
	refused atomic.Int64
	headers *headers.Room
	proxies Proxies

	descriptors func() uint64 // that the process may have
}

// Bounds of headers that have not come to their end, in bytes: of all connections
// together, and of those from one address. Who is slow with one has 5 s for it.
const (
	unfinishedHeaders  = 32 << 20
	unfinishedOfRemote = 4 << 20
)

// MaxFields is how many lines a request has before its body.
const MaxFields = 256

// NewConnections allows most connections at once, and half of them to one address; 0 is no
// limit. Those of proxies are of many clients, and have no bound of one address.
func NewConnections(most int, proxies Proxies) *Connections {
	return &Connections{kept: newKeptConns(most), proxies: proxies, headers: headers.NewRoom(unfinishedHeaders, unfinishedOfRemote), descriptors: maxDescriptors}
}

// Bound returns a listener on whose connections headers are counted as they arrive, and
// which ends those whose client is gone.
func (c *Connections) Bound(l net.Listener) net.Listener {
	l = endHalfOpen(l, silentFor, lookEvery)
	if protection.Off(protection.HeaderCount) {
		return l
	}
	tooLarge := wholeAnswer(http.StatusRequestHeaderFieldsTooLarge, string(codeHeaders),
		fmt.Sprintf("the request has more than %d headers, or its path and headers are over their limit of %d bytes", MaxFields, maxHeaders))
	scarce := wholeAnswer(http.StatusServiceUnavailable, string(errdefs.Unavailable),
		"too many requests from this address, or of all clients together, have begun and not ended their headers; try again")
	return headers.Listener{Listener: l, Room: c.headers, Shared: c.proxies.Trust, Limits: headers.Limits{Fields: MaxFields, Bytes: 2 * maxHeaders, TooLarge: tooLarge, Scarce: scarce}}
}

// reserve is how many of the process's descriptors connections leave to what those
// that there are ask for: files, runners, the database.
func reserve(limit uint64) uint64 { return min(limit/8, 256) }

func maxDescriptors() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return limit.Cur
}

// scarce reports whether a new connection is of the reserve. The kernel gives out
// the lowest descriptor that is free, so its number tells how many are taken.
func (c *Connections) scarce(conn net.Conn) bool {
	limit := c.descriptors()
	raw, ok := conn.(syscall.Conn)
	if !ok || limit == 0 {
		return false
	}
	control, err := raw.SyscallConn()
	if err != nil {
		return false
	}
	number := uintptr(0)
	if control.Control(func(fd uintptr) { number = fd }) != nil {
		return false
	}
	return uint64(number) >= limit-reserve(limit)
}

// tooMany is the whole answer on a connection over the limit.
var tooMany = wholeAnswer(http.StatusServiceUnavailable, string(errdefs.Unavailable), "the daemon has as many connections as it may have; close what you do not use and try again")

// wholeAnswer is an error on a connection whose request nobody has read.
func wholeAnswer(status int, code, text string) []byte {
	retry := ""
	if status == http.StatusServiceUnavailable {
		retry = "Retry-After: " + retryAfter + "\r\n"
	}
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\n%sConnection: close\r\n\r\n{\"error\":%q,\"code\":%q}\n", status, http.StatusText(status), retry, text, code)
}

// Watch has a server's connections counted, and those over a limit closed: idle ones
// first, the oldest of the address that has the most, and without any the new one. A
// connection that a WebSocket or a tunnel has taken over is not counted any
// more: it is a request under way.
func (c *Connections) Watch(server *http.Server) {
	server.ConnState = func(conn net.Conn, state http.ConnState) {
		headers.Watch(conn, state)
		switch state {
		case http.StateNew:
			victim, ok := c.kept.add(conn, c.addressOf(conn), c.scarce(conn))
			if victim != nil {
				victim.Close() // the server notices, as if the client had closed it
			}
			if !ok {
				c.refused.Add(1)
				refuse(conn)
			}
		case http.StateIdle:
			c.kept.idles(conn)
		case http.StateActive:
			c.kept.works(conn)
		case http.StateClosed, http.StateHijacked:
			c.kept.remove(conn)
		}
	}
}

// addressOf is what a connection counts for. The zero address has no bound of its own: of
// a proxy that is trusted, and of this host's programs, among which may be one.
func (c *Connections) addressOf(conn net.Conn) netip.Addr {
	at, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	if a := at.AddrPort().Addr().Unmap(); !a.IsLoopback() && !c.proxies.Trust(a) {
		return headers.Network(a)
	}
	return netip.Addr{}
}

// refuse answers what has not been asked yet. The client may be gone, or lose
// the answer when its request meets the closed end: it is told as far as can be.
func refuse(conn net.Conn) {
	if conn.SetWriteDeadline(time.Now().Add(time.Second)) == nil {
		conn.Write(tooMany) //nolint:errcheck // see above
	}
	conn.Close() // the server closes it too, and tells nobody either
}

var (
	connectionsDesc      = prometheus.NewDesc("sandkasten_http_connections", "Connections that clients have open, but for WebSockets.", nil, nil)
	connectionsLimitDesc = prometheus.NewDesc("sandkasten_http_connections_limit", "How many connections may be open; 0 is no limit.", nil, nil)
	headersDesc          = prometheus.NewDesc("sandkasten_http_headers_unfinished_bytes", "Bytes of requests whose headers have not come to their end.", nil, nil)
	headersOverDesc      = prometheus.NewDesc("sandkasten_http_headers_refused_total", "Connections closed because unfinished headers took too much room.", nil, nil)
	connectionsOverDesc  = prometheus.NewDesc("sandkasten_http_connections_refused_total", "Connections closed because there were too many.", nil, nil)
)

// Describe is for the registry.
func (c *Connections) Describe(out chan<- *prometheus.Desc) {
	out <- connectionsDesc
	out <- connectionsLimitDesc
	out <- connectionsOverDesc
	out <- headersDesc
	out <- headersOverDesc
}

// Collect is for the registry.
func (c *Connections) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(connectionsDesc, prometheus.GaugeValue, float64(c.kept.open()))
	out <- prometheus.MustNewConstMetric(connectionsLimitDesc, prometheus.GaugeValue, float64(c.kept.most))
	out <- prometheus.MustNewConstMetric(headersDesc, prometheus.GaugeValue, float64(c.headers.Used()))
	out <- prometheus.MustNewConstMetric(headersOverDesc, prometheus.CounterValue, float64(c.headers.Refused()))
	out <- prometheus.MustNewConstMetric(connectionsOverDesc, prometheus.CounterValue, float64(c.refused.Load()))
}
