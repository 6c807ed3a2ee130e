package api

import (
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Connections bounds how many connections clients have open. It is a collector
// of metrics.
type Connections struct {
	most    int64 // 0 is no limit
	open    atomic.Int64
	refused atomic.Int64

	descriptors func() uint64 // that the process may have
}

// NewConnections allows most connections at once; 0 is no limit.
func NewConnections(most int) *Connections {
	return &Connections{most: int64(most), descriptors: maxDescriptors}
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
const tooMany = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: " + retryAfter + "\r\nConnection: close\r\n\r\n" +
	`{"error":"the daemon has as many connections as it may have; close what you do not use and try again","code":"unavailable"}` + "\n"

// Watch has a server's connections counted, and those over the limit closed. A
// connection that a WebSocket or a tunnel has taken over is not counted any
// more: it is a request under way.
func (c *Connections) Watch(server *http.Server) {
	server.ConnState = func(conn net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			if n := c.open.Add(1); c.most > 0 && n > c.most || c.scarce(conn) {
				c.refused.Add(1)
				refuse(conn)
			}
		case http.StateClosed, http.StateHijacked:
			c.open.Add(-1)
		case http.StateActive, http.StateIdle:
		}
	}
}

// refuse answers what has not been asked yet. The client may be gone, or lose
// the answer when its request meets the closed end: it is told as far as can be.
func refuse(conn net.Conn) {
	if conn.SetWriteDeadline(time.Now().Add(time.Second)) == nil {
		conn.Write([]byte(tooMany)) //nolint:errcheck // see above
	}
	conn.Close() // the server closes it too, and tells nobody either
}

var (
	connectionsDesc      = prometheus.NewDesc("sandkasten_http_connections", "Connections that clients have open, but for WebSockets.", nil, nil)
	connectionsLimitDesc = prometheus.NewDesc("sandkasten_http_connections_limit", "How many connections may be open; 0 is no limit.", nil, nil)
	connectionsOverDesc  = prometheus.NewDesc("sandkasten_http_connections_refused_total", "Connections closed because there were too many.", nil, nil)
)

// Describe is for the registry.
func (c *Connections) Describe(out chan<- *prometheus.Desc) {
	out <- connectionsDesc
	out <- connectionsLimitDesc
	out <- connectionsOverDesc
}

// Collect is for the registry.
func (c *Connections) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(connectionsDesc, prometheus.GaugeValue, float64(c.open.Load()))
	out <- prometheus.MustNewConstMetric(connectionsLimitDesc, prometheus.GaugeValue, float64(c.most))
	out <- prometheus.MustNewConstMetric(connectionsOverDesc, prometheus.CounterValue, float64(c.refused.Load()))
}
