package api

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics counts requests by route. A route is its pattern, never a path: a
// session's id in a label would make a new series for every session.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	if registry == nil {
		return nil
	}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sandkasten_http_requests_total",
			Help: "Requests answered, by route and status.",
		}, []string{"route", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:                            "sandkasten_http_request_duration_seconds",
			Help:                            "Time from a request's header to the end of its answer, by route.",
			Buckets:                         []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 5, 30},
			NativeHistogramBucketFactor:     1.1,
			NativeHistogramMaxBucketNumber:  100,
			NativeHistogramMinResetDuration: time.Hour,
		}, []string{"route"}),
	}
	registry.MustRegister(m.requests, m.duration)
	return m
}

// statusLabel is a status as a label. A program in a sandbox may answer with any
// number; those that nobody has given a meaning are one.
func statusLabel(status int) string {
	if http.StatusText(status) == "" && status != statusClientGone {
		return "other"
	}
	return strconv.Itoa(status)
}

func (m *metrics) observe(r *http.Request, status int, elapsed time.Duration) {
	if m == nil {
		return
	}
	route := r.Pattern
	if route == "" || route == "/" {
		route = "none"
	}
	m.requests.WithLabelValues(route, statusLabel(status)).Inc()
	m.duration.WithLabelValues(route).Observe(elapsed.Seconds())
}

// Answers counts the requests that were answered, for who keeps a history of them.
type Answers struct {
	All    atomic.Int64
	Failed atomic.Int64 // by the daemon: its faults, see isFailure
}

// count counts an answer; one is foreign that a program in a sandbox gave.
func (a *Answers) count(status int, foreign bool) {
	if a == nil {
		return
	}
	a.All.Add(1)
	if isFailure(status) && !foreign {
		a.Failed.Add(1)
	}
}
