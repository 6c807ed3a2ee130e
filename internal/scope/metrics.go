package scope

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/session"
)

// namespaces are the kinds of scopes.
var namespaces = []string{"workflow", "agent", "user"}

// of is the namespace of a scope.
func of(scope string) string {
	namespace, _, _ := strings.Cut(scope, ":")
	return namespace
}

var openDesc = prometheus.NewDesc("sandkasten_scope_sessions", "Sessions that belong to a scope and have not ended, by namespace.", []string{"namespace"}, nil)

func newCleaned() *prometheus.HistogramVec {
	cleaned := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "sandkasten_scope_cleaned_seconds", Help: "From when the sessions of a complete scope were due to end to the end of each, by namespace.",
		Buckets: []float64{.1, .5, 1, 5, 15, 30, 60, 120, 300, 600, 3600},
	}, []string{"namespace"})
	for _, namespace := range namespaces {
		cleaned.WithLabelValues(namespace) // a rate needs a first value
	}
	return cleaned
}

// Describe is for the registry.
func (s *Service) Describe(out chan<- *prometheus.Desc) {
	s.cleaned.Describe(out)
	out <- openDesc
}

// Collect is for the registry.
func (s *Service) Collect(out chan<- prometheus.Metric) {
	s.cleaned.Collect(out)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second) //nolint:forbidigo // the registry gives none
	defer cancel()
	all, err := s.opts.Sessions.List(ctx, auth.System("metrics"), session.ListRequest{})
	if err != nil {
		out <- prometheus.NewInvalidMetric(openDesc, err)
		return
	}
	open := map[string]int{}
	for _, one := range all {
		open[of(one.Labels[Label])]++
	}
	for _, namespace := range namespaces {
		out <- prometheus.MustNewConstMetric(openDesc, prometheus.GaugeValue, float64(open[namespace]), namespace)
	}
}
