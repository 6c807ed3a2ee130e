package tracing_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/tracing"
)

func recorded(options ...sdktrace.TracerProviderOption) (*tracing.Tracer, *tracetest.SpanRecorder) {
	spans := tracetest.NewSpanRecorder()
	return tracing.New(sdktrace.NewTracerProvider(append(options, sdktrace.WithSpanProcessor(spans))...)), spans
}

const theirs = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestTraceparentOfAClientIsALinkOnly(t *testing.T) {
	tracer, spans := recorded()
	for _, c := range []struct {
		traceparent string
		links       int
	}{{theirs, 1}, {"", 0}, {"00-nonsense", 0}, {strings.Repeat("0", 1<<16), 0}} {
		header := http.Header{"Traceparent": {c.traceparent}, "Tracestate": {"a=b"}}
		_, span := tracer.Request(t.Context(), header)
		span.Answered("GET /x", http.StatusOK, "id")
		ended := spans.Ended()
		got := ended[len(ended)-1]
		if len(got.Links()) != c.links || got.Parent().IsValid() || strings.Contains(theirs, got.SpanContext().TraceID().String()) {
			t.Errorf("%.60q: links %v, parent %v, trace %v", c.traceparent, got.Links(), got.Parent(), got.SpanContext().TraceID())
		}
		if c.links == 1 && (got.Links()[0].SpanContext.TraceID().String() != theirs[3:35] || got.Links()[0].SpanContext.TraceState().Len() > 0) {
			t.Errorf("link %+v", got.Links()[0])
		}
	}
}

func TestClientCannotChooseToBeTraced(t *testing.T) {
	tracer, spans := recorded(sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0))))
	ctx, span := tracer.Request(t.Context(), http.Header{"Traceparent": {theirs}})
	if _, below := tracing.Start(ctx, tracing.Manager, "exec"); below != (tracing.Span{}) {
		t.Error("a span below a request that is not traced")
	}
	span.Answered("GET /x", http.StatusOK, "id")
	if n := len(spans.Ended()); n > 0 {
		t.Errorf("%d spans", n)
	}
}

func TestFailureIsItsCodeAlone(t *testing.T) {
	tracer, spans := recorded()
	ctx, _ := tracer.Request(t.Context(), nil)
	err := errdefs.Wrap(errors.New("open /secret/path"), errdefs.Conflict, "do not say %s", "this")
	if got := tracing.Do(ctx, tracing.Driver, "create", func(context.Context) error { return err }); !errors.Is(got, err) {
		t.Errorf("Do = %v", got)
	}
	span := spans.Ended()[0]
	if s := span.Status(); s.Code != codes.Error || s.Description != "" || len(span.Events()) > 0 {
		t.Errorf("status %+v, events %v", s, span.Events())
	}
	if a := span.Attributes(); len(a) != 1 || a[0].Value.AsString() != string(errdefs.Conflict) {
		t.Errorf("attributes %v", a)
	}
}

// Where tracing is off every request pays this.
func TestOffCostsNoMemory(t *testing.T) {
	ctx := context.WithValue(t.Context(), http.ServerContextKey, "something")
	if n := testing.AllocsPerRun(1000, func() { off(ctx) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkOff(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		off(b.Context())
	}
}

// off is what an exec does: a request, a manager's step and a runner's.
func off(ctx context.Context) {
	var tracer *tracing.Tracer
	ctx, request := tracer.Request(ctx, nil)
	ctx, manager := tracing.Start(ctx, tracing.Manager, "exec")
	_, runner := tracing.Start(ctx, tracing.Runner, "call")
	runner.Name(tracing.Runner, "exec")
	runner.End(nil)
	manager.End(nil)
	request.Answered("POST /v1/sessions/{id}/exec", http.StatusOK, "id")
}

func BenchmarkOn(b *testing.B) {
	tracer := tracing.New(sdktrace.NewTracerProvider())
	b.ReportAllocs()
	for b.Loop() {
		ctx, request := tracer.Request(b.Context(), nil)
		ctx, manager := tracing.Start(ctx, tracing.Manager, "exec")
		_, runner := tracing.Start(ctx, tracing.Runner, "exec")
		runner.End(nil)
		manager.End(nil)
		request.Answered("POST /v1/sessions/{id}/exec", http.StatusOK, "id")
	}
}
