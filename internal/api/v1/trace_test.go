package v1_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/sandkasten/sandkasten/internal/tracing/otlp"
)

// receiver takes what the daemon exports, as a collector does.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*trace.Span // guarded by mu
}

func newReceiver(tb testing.TB) *receiver {
	tb.Helper()
	r := &receiver{}
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

// trees returns each trace as the names of its spans, from the root down.
func (r *receiver) trees(tb testing.TB) []string {
	tb.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortFunc(r.spans, func(a, b *trace.Span) int {
		return int(int64(a.GetStartTimeUnixNano()) - int64(b.GetStartTimeUnixNano()))
	})
	var below func(parent *trace.Span) string
	below = func(parent *trace.Span) string {
		var names []string
		for _, s := range r.spans {
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
	for _, s := range r.spans {
		if len(s.GetParentSpanId()) == 0 {
			trees = append(trees, s.GetName()+below(s))
		}
	}
	return trees
}

func TestTraceFollowsARequestToTheRunner(t *testing.T) {
	r := newReceiver(t)
	exporter, err := otlp.New(t.Context(), otlp.Options{Endpoint: r.URL, Ratio: 1, Version: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, func(o *setup) { o.api.Tracer = exporter.Tracer() })
	path := s.create(t)
	s.exec(t, path, "echo SECRET-COMMAND")
	s.do(t, "GET", path+"/fs/read?path=/workspace/SECRET-PATH", "")
	s.do(t, "GET", "/healthz", "")
	s.do(t, "GET", "/SECRET-ROUTE", "")
	for _, operation := range []string{"pause", "resume", "stop", "start", "fork"} {
		s.do(t, "POST", path+"/"+operation, "{}")
	}
	s.do(t, "DELETE", path, "")
	s.Close() // the last answer comes before the end of its span
	exporter.Close(t.Context())

	trees := r.trees(t)
	for i, want := range []string{
		"POST /v1/sessions > [manager.create > [driver.create",
		"POST /v1/sessions/{id}/exec > [manager.exec > [runner.exec]]",
		"GET /v1/sessions/{id}/fs/read > [runner.read]",
		"request",
		"POST /v1/sessions/{id}/pause > [manager.pause",
		"POST /v1/sessions/{id}/resume > [manager.resume",
		"POST /v1/sessions/{id}/stop > [manager.stop > [driver.stop",
		"POST /v1/sessions/{id}/start > [manager.start > [driver.start",
		"POST /v1/sessions/{id}/fork > [manager.fork > [driver.fork",
		"DELETE /v1/sessions/{id} > [manager.destroy > [driver.destroy]]",
	} {
		if i >= len(trees) || !strings.HasPrefix(trees[i], want) {
			t.Errorf("trace %d is not %s", i, want)
		}
	}
	if len(trees) != 10 {
		t.Errorf("%d traces", len(trees))
	}
	t.Log(strings.Join(trees, "\n"))
	for _, span := range r.spans {
		if said := fmt.Sprint(span); strings.Contains(said, "SECRET") || strings.Contains(said, strings.TrimPrefix(path, "/v1/sessions/")) {
			t.Errorf("a span says too much: %s", said)
		}
	}
}
