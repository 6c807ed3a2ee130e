package api

import (
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Connections bounds how many connections clients have open. It is a collector
// of metrics.
type Connections struct {
	most    int64 // 0 is no limit
	open    atomic.Int64
	refused atomic.Int64
}

// NewConnections allows most connections at once; 0 is no limit.
func NewConnections(most int) *Connections { return &Connections{most: int64(most)} }

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
			if n := c.open.Add(1); c.most > 0 && n > c.most {
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
