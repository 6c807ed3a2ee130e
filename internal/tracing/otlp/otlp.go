// Package otlp sends traces to a collector, by OTLP over HTTP. It decides which
// requests are traced, how many spans wait, and what becomes of them where nobody
// takes them: they are dropped, and nobody waits. What is in a span is
// internal/tracing's.
package otlp

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/sandkasten/sandkasten/internal/tracing"
)

// What bounds the sending.
const (
	maxWaiting    = 4096 // spans; of more the newest are dropped
	exportTimeout = 3 * time.Second
	sendEvery     = 2 * time.Second
	// CloseTimeout is the longest that Close takes.
	CloseTimeout = 2 * time.Second
	// reportInterval is between two warnings that spans are lost.
	reportInterval = time.Minute
)

// Options configures New.
type Options struct {
	Endpoint string  // of the collector: http://127.0.0.1:4318
	Ratio    float64 // of all requests, to be traced: 0 to 1
	Version  string  // of the daemon
	Log      *slog.Logger
}

// Exporter sends traces in the background.
type Exporter struct {
	provider *sdktrace.TracerProvider
	log      *slog.Logger
}

// New returns an Exporter that works from now on. It does not look whether
// there is a collector. The caller closes it.
func New(ctx context.Context, o Options) (*Exporter, error) {
	client := otlptracehttp.NewClient(
		otlptracehttp.WithEndpointURL(o.Endpoint+"/v1/traces"),
		otlptracehttp.WithTimeout(exportTimeout),
		// What is sent again keeps what is new from being sent.
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: false}),
	)
	sender, err := otlptrace.New(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("trace to %s: %w", o.Endpoint, err)
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSampler(tracing.Sampler(o.Ratio)),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "sandkasten"), attribute.String("service.version", o.Version))),
		sdktrace.WithBatcher(&teller{SpanExporter: sender, log: o.Log},
			sdktrace.WithMaxQueueSize(maxWaiting), sdktrace.WithBatchTimeout(sendEvery), sdktrace.WithExportTimeout(exportTimeout)),
	)
	return &Exporter{provider: provider, log: o.Log}, nil
}

// Tracer begins the traces that are sent.
func (e *Exporter) Tracer() *tracing.Tracer { return tracing.New(e.provider) }

// Close sends what waits, for no longer than CloseTimeout. What is left then is
// lost, which is no error.
func (e *Exporter) Close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, CloseTimeout)
	defer cancel()
	if err := e.provider.Shutdown(ctx); err != nil {
		e.log.WarnContext(ctx, "traces are lost: the collector does not take them", "err", err)
	}
}

// teller says in the log when spans cannot be sent, now and then.
type teller struct {
	sdktrace.SpanExporter
	log *slog.Logger

	mu         sync.Mutex
	lastReport time.Time // guarded by mu
}

// ExportSpans never fails: who calls it could only say so once more.
func (t *teller) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := t.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		return nil
	}
	t.mu.Lock()
	silent := time.Since(t.lastReport) < reportInterval
	if !silent {
		t.lastReport = time.Now()
	}
	t.mu.Unlock()
	if !silent {
		t.log.WarnContext(ctx, "traces are lost: the collector does not take them; look at tracing.endpoint", "spans", len(spans), "err", err)
	}
	return nil
}
