// Package sessionmetrics measures what clients do with sessions, for Prometheus. It
// belongs here if it is a number about sessions, workspaces or requests; what a
// package measures of itself, it registers by itself.
package sessionmetrics

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
	"github.com/sandkasten/sandkasten/protocol"
)

const (
	execDurations = "sandkasten_exec_duration_seconds"
	outcomeOK     = "ok" // of a create
)

// Metrics measures what sessions and commands cost. No label names a session.
// A nil Metrics measures nothing.
type Metrics struct {
	create *prometheus.HistogramVec
	exec   *prometheus.HistogramVec
	full   prometheus.Counter

	durations *prometheus.Registry // of create and exec alone
}

// New registers what it measures of manager's sessions. Without a registry it
// returns nil.
func New(registry *prometheus.Registry, manager *session.Manager) *Metrics {
	if registry == nil {
		return nil
	}
	m := newMetrics()
	registry.MustRegister(m.durations, m.full, sessionCounter{manager}, &useCounter{manager: manager}, networkCounter{manager})
	if manager.Workspaces.Enabled() {
		registry.MustRegister(workspaceCounter{manager})
	}
	if manager.Snapshots.Enabled() {
		registry.MustRegister(snapshotCounter{manager})
	}
	return m
}

func newMetrics() *Metrics {
	m := &Metrics{
		durations: prometheus.NewRegistry(),
		create: histogram("sandkasten_session_create_duration_seconds",
			"Time to make a session, by outcome: ok, or the code of the error.", "outcome"),
		exec: histogram(execDurations,
			"Time that commands ran, by how they ended; those that were started in the background are not counted.", "cause"),
		full: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sandkasten_exec_disk_full_total",
			Help: "Commands that failed and whose disk or workspace was full when they ended; those that were started in the background are not counted.",
		}),
	}
	// A rate needs a first value: that the first command was killed must show.
	for _, cause := range []protocol.Cause{
		protocol.CauseExited, protocol.CauseSignaled, protocol.CauseTimeout, protocol.CauseOOMKilled,
		protocol.CauseShellExited, protocol.CauseCanceled, protocol.CauseSandboxGone,
	} {
		m.exec.WithLabelValues(string(cause))
	}
	m.durations.MustRegister(m.create, m.exec)
	return m
}

func histogram(name, help, label string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help,
		Buckets:                         []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 5, 30, 120},
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  100,
		NativeHistogramMinResetDuration: time.Hour,
	}, []string{label})
}

// Created notes that somebody waited for a session, and how that went.
func (m *Metrics) Created(took time.Duration, err error) {
	if m == nil {
		return
	}
	outcome := outcomeOK
	if err != nil {
		outcome = string(errdefs.CodeOf(err))
	}
	m.create.WithLabelValues(outcome).Observe(took.Seconds())
}

// Ran notes that a command ended.
func (m *Metrics) Ran(result protocol.Record) {
	if m == nil {
		return
	}
	m.exec.WithLabelValues(string(result.Cause)).Observe(float64(result.DurationUS) / 1e6)
	if result.DiskFull {
		m.full.Inc()
	}
}

var (
	sessionsDesc      = prometheus.NewDesc("sandkasten_sessions", "Sessions that have not ended, by state and driver.", []string{"state", "driver"}, nil)
	sessionsLimitDesc = prometheus.NewDesc("sandkasten_sessions_limit", "How many may be alive at once, of all keys together; 0 is no maximum.", nil, nil)
)

// sessionCounter counts sessions when somebody looks, so that no change of
// state has to.
type sessionCounter struct{ manager *session.Manager }

// Describe is for the registry.
func (sessionCounter) Describe(out chan<- *prometheus.Desc) {
	out <- sessionsDesc
	out <- sessionsLimitDesc
}

// Collect is for the registry.
func (c sessionCounter) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := scrape()
	defer cancel()
	all, err := c.manager.Sessions.List(ctx, reader, session.ListRequest{})
	if err != nil {
		out <- prometheus.NewInvalidMetric(sessionsDesc, err)
		return
	}
	for of, n := range counts(all, c.manager.Drivers()) {
		out <- prometheus.MustNewConstMetric(sessionsDesc, prometheus.GaugeValue, float64(n), string(of.state), of.driver)
	}
	_, maxima, _ := c.manager.Sessions.Limits(reader)
	out <- prometheus.MustNewConstMetric(sessionsLimitDesc, prometheus.GaugeValue, float64(maxima.Sessions))
}

// kind is what the gauge of sessions tells apart.
type kind struct {
	state  session.State
	driver string
}

// counts is what the gauge of sessions shows. Drivers that are no more chosen
// have those of their sessions only.
func counts(all []session.Session, drivers []string) map[kind]int {
	n := map[kind]int{}
	for _, driver := range drivers {
		for _, state := range []session.State{
			session.Creating, session.Running, session.Paused, session.Stopping, session.Stopped, session.Starting,
		} {
			n[kind{state, driver}] = 0
		}
	}
	for _, one := range all {
		n[kind{one.State, one.Driver()}]++
	}
	return n
}

var (
	workspacesDesc     = prometheus.NewDesc("sandkasten_workspaces", "Workspaces, by whether a session that has not ended has them.", []string{"in_use"}, nil)
	workspaceBytesDesc = prometheus.NewDesc("sandkasten_workspaces_bytes", "What the files in all workspaces take.", nil, nil)
	workspaceLimitDesc = prometheus.NewDesc("sandkasten_workspaces_limit_bytes", "What the files in all workspaces may come to take.", nil, nil)
)

// workspaceCounter is to workspaces what sessionCounter is to sessions.
type workspaceCounter struct{ manager *session.Manager }

// Describe is for the registry.
func (workspaceCounter) Describe(out chan<- *prometheus.Desc) {
	out <- workspacesDesc
	out <- workspaceBytesDesc
	out <- workspaceLimitDesc
}

// Collect is for the registry.
func (c workspaceCounter) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := scrape()
	defer cancel()
	all, err := c.manager.Workspaces.List(ctx, reader)
	if err != nil {
		out <- prometheus.NewInvalidMetric(workspacesDesc, err)
		return
	}
	inUse, bytes, limit := 0, int64(0), int64(0)
	for _, w := range all {
		if w.Active > 0 {
			inUse++
		}
		bytes += w.Bytes
		limit += w.SizeMB << 20
	}
	out <- prometheus.MustNewConstMetric(workspacesDesc, prometheus.GaugeValue, float64(inUse), "true")
	out <- prometheus.MustNewConstMetric(workspacesDesc, prometheus.GaugeValue, float64(len(all)-inUse), "false")
	out <- prometheus.MustNewConstMetric(workspaceBytesDesc, prometheus.GaugeValue, float64(bytes))
	out <- prometheus.MustNewConstMetric(workspaceLimitDesc, prometheus.GaugeValue, float64(limit))
}

var (
	snapshotsDesc     = prometheus.NewDesc("sandkasten_snapshots", "Snapshots that can be restored.", nil, nil)
	snapshotBytesDesc = prometheus.NewDesc("sandkasten_snapshots_bytes", "What the archives of all snapshots take, those included that are being made or removed.", nil, nil)
)

// snapshotCounter is to snapshots what sessionCounter is to sessions.
type snapshotCounter struct{ manager *session.Manager }

// Describe is for the registry.
func (snapshotCounter) Describe(out chan<- *prometheus.Desc) {
	out <- snapshotsDesc
	out <- snapshotBytesDesc
}

// Collect is for the registry.
func (c snapshotCounter) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := scrape()
	defer cancel()
	all, err := c.manager.Snapshots.List(ctx, reader, snapshots.Filter{})
	bytes := int64(0)
	if err == nil {
		bytes, _, err = c.manager.Snapshots.Usage(ctx, reader)
	}
	if err != nil {
		out <- prometheus.NewInvalidMetric(snapshotsDesc, err)
		return
	}
	out <- prometheus.MustNewConstMetric(snapshotsDesc, prometheus.GaugeValue, float64(len(all)))
	out <- prometheus.MustNewConstMetric(snapshotBytesDesc, prometheus.GaugeValue, float64(bytes))
}

// reader is in whose name metrics are read.
var reader = auth.System("metrics")

// scrape bounds what a collector does, which is given no context.
func scrape() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 5*time.Second) //nolint:forbidigo // nobody gives one
}

// Handler shows what is in registry, of whoever put it there.
func Handler(registry *prometheus.Registry) http.HandlerFunc {
	if registry == nil {
		return func(w http.ResponseWriter, r *http.Request) {
			api.WriteError(w, r, errdefs.New(errdefs.NotFound, "this daemon keeps no metrics"))
		}
	}
	// What fails is left out: an error's text is not for clients.
	options := promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}
	return promhttp.HandlerFor(registry, options).ServeHTTP
}
