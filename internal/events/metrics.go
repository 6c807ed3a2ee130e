package events

import "github.com/prometheus/client_golang/prometheus"

// metrics counts by kinds and reasons, of which there are few.
type metrics struct {
	published *prometheus.CounterVec
	gaps      *prometheus.CounterVec
	byKind    map[Kind]prometheus.Counter
}

var streamsDesc = prometheus.NewDesc("sandkasten_events_streams", "Event streams that clients follow.", nil, nil)

func newMetrics() metrics {
	m := metrics{
		published: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sandkasten_events_published_total", Help: "Events of the event stream, by what they are about.",
		}, []string{"kind"}),
		gaps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sandkasten_events_gaps_total", Help: "Times that a client of the event stream missed events, by why.",
		}, []string{"reason"}),
		byKind: make(map[Kind]prometheus.Counter, len(Kinds)),
	}
	for _, k := range Kinds {
		m.byKind[k] = m.published.WithLabelValues(string(k))
	}
	for _, r := range Reasons {
		m.gaps.WithLabelValues(string(r))
	}
	return m
}

func (m *metrics) count(k Kind) { m.byKind[k].Inc() }
func (m *metrics) gap(r Reason) { m.gaps.WithLabelValues(string(r)).Inc() }

// Describe is for a registry of metrics.
func (h *Hub) Describe(out chan<- *prometheus.Desc) {
	h.metrics.published.Describe(out)
	h.metrics.gaps.Describe(out)
	out <- streamsDesc
}

// Collect is for a registry of metrics.
func (h *Hub) Collect(out chan<- prometheus.Metric) {
	h.metrics.published.Collect(out)
	h.metrics.gaps.Collect(out)
	h.mu.Lock()
	streams := h.streams
	h.mu.Unlock()
	out <- prometheus.MustNewConstMetric(streamsDesc, prometheus.GaugeValue, float64(streams))
}
