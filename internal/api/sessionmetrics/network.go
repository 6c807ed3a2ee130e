package sessionmetrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandkasten/sandkasten/internal/network/relay"
	"github.com/sandkasten/sandkasten/internal/session"
)

// networkCounter shows what the networks of sessions carried and refused, by the owner
// of their key, since the daemon's start.
type networkCounter struct{ manager *session.Manager }

var (
	networkConnections = networkDesc("sandkasten_network_connections", "Connections and flows of UDP of sessions that are open, by owner.")
	networkOpened      = networkDesc("sandkasten_network_opened_total", "Connections and flows of UDP that sessions opened, by owner.")
	networkRefused     = networkDesc("sandkasten_network_refused_total", "Connections, flows and requests of sessions that were refused, by owner.")
	networkQueries     = networkDesc("sandkasten_network_queries_total", "Name queries of sessions, by owner and outcome.", "outcome")
	networkBytes       = networkDesc("sandkasten_network_bytes_total", "Bytes that sessions sent and received, by owner and direction.", "direction")
	networkLimits      = networkDesc("sandkasten_network_limit_hits_total", "Refusals of sessions' networks for a limit, by owner and limit.", "limit")
)

func networkDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append([]string{"owner"}, labels...), nil)
}

// Describe is for the registry.
func (networkCounter) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{networkConnections, networkOpened, networkRefused, networkQueries, networkBytes, networkLimits} {
		out <- desc
	}
}

// Collect is for the registry.
func (c networkCounter) Collect(out chan<- prometheus.Metric) {
	all, err := c.manager.Networks.TotalsByOwner(reader)
	if err != nil {
		out <- prometheus.NewInvalidMetric(networkConnections, err)
		return
	}
	for owner, t := range all {
		collectNetwork(out, owner, t)
	}
}

func collectNetwork(out chan<- prometheus.Metric, owner string, t relay.Totals) {
	count := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, value, append([]string{owner}, labels...)...)
	}
	out <- prometheus.MustNewConstMetric(networkConnections, prometheus.GaugeValue, float64(t.Connections), owner)
	count(networkOpened, float64(t.Opened))
	count(networkRefused, float64(t.Refused))
	count(networkQueries, float64(t.Queries-t.QueriesRefused), "allowed")
	count(networkQueries, float64(t.QueriesRefused), "refused")
	count(networkBytes, float64(t.Sent), "sent")
	count(networkBytes, float64(t.Received), "received")
	for limit, hits := range t.LimitHits {
		count(networkLimits, float64(hits), string(limit))
	}
}
