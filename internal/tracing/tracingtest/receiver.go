// Package tracingtest takes what is exported by OTLP over HTTP, as a collector does.
package tracingtest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Receiver is a collector. Its URL is the endpoint.
type Receiver struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*trace.Span // guarded by mu
}

// New returns a receiver that ends with the test.
func New(tb testing.TB) *Receiver {
	tb.Helper()
	r := &Receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		var export collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &export)
		}
		if err != nil || req.URL.Path != "/v1/traces" {
			tb.Errorf("%s %s: %v", req.Method, req.URL, err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, resource := range export.GetResourceSpans() {
			for _, scope := range resource.GetScopeSpans() {
				r.spans = append(r.spans, scope.GetSpans()...)
			}
		}
	}))
	tb.Cleanup(r.Close)
	return r
}

// Spans returns what has come, by its beginning.
func (r *Receiver) Spans() []*trace.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortFunc(r.spans, func(a, b *trace.Span) int {
		return int(int64(a.GetStartTimeUnixNano()) - int64(b.GetStartTimeUnixNano()))
	})
	return slices.Clone(r.spans)
}

// Trees returns each trace as the names of its spans, from the root down, and fails
// the test for a span that is not within the one above it.
func (r *Receiver) Trees(tb testing.TB) []string {
	tb.Helper()
	spans := r.Spans()
	var below func(parent *trace.Span) string
	below = func(parent *trace.Span) string {
		var names []string
		for _, s := range spans {
			if string(s.GetParentSpanId()) != string(parent.GetSpanId()) {
				continue
			}
			if string(s.GetTraceId()) != string(parent.GetTraceId()) {
				tb.Errorf("%s is of another trace than the span above it", s.GetName())
			}
			if s.GetStartTimeUnixNano() < parent.GetStartTimeUnixNano() || s.GetEndTimeUnixNano() > parent.GetEndTimeUnixNano() {
				tb.Errorf("%s is not within %s", s.GetName(), parent.GetName())
			}
			names = append(names, s.GetName()+below(s))
		}
		if len(names) == 0 {
			return ""
		}
		return " > [" + strings.Join(names, ", ") + "]"
	}
	var trees []string
	for _, s := range spans {
		if len(s.GetParentSpanId()) == 0 {
			trees = append(trees, s.GetName()+below(s))
		}
	}
	return trees
}
