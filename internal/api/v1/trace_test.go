package v1_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/internal/tracing/otlp"
	"github.com/sandkasten/sandkasten/internal/tracing/tracingtest"
)

func TestTraceFollowsARequestToTheRunner(t *testing.T) {
	r := tracingtest.New(t)
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
	// Close waits for two seconds, in which a busy host may not send them: what waits then is lost.
	testenv.Eventually(t, "all traces are sent", func() bool { return len(r.Trees(t)) >= 10 })
	exporter.Close(t.Context())

	trees := r.Trees(t)
	for i, want := range []string{
		"POST /v1/sessions > [manager.create > [driver.create",
		"POST /v1/sessions/{id}/exec > [manager.exec > [runner.exec]]",
		"GET /v1/sessions/{id}/fs/read > [runner.read]",
		"request",
		"POST /v1/sessions/{id}/pause > [manager.pause",
		"POST /v1/sessions/{id}/resume > [manager.resume",
		"POST /v1/sessions/{id}/stop > [manager.stop > [driver.stop",
		"POST /v1/sessions/{id}/start > [manager.start > [driver.start",
		"POST /v1/sessions/{id}/fork > [runner.execs, manager.fork > [driver.fork",
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
	for _, span := range r.Spans() {
		if said := fmt.Sprint(span); strings.Contains(said, "SECRET") || strings.Contains(said, strings.TrimPrefix(path, "/v1/sessions/")) {
			t.Errorf("a span says too much: %s", said)
		}
	}
}
