package tracing_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/tracing"
)

func recorded(options ...sdktrace.TracerProviderOption) (*tracing.Tracer, *tracetest.SpanRecorder) {
	spans := tracetest.NewSpanRecorder()
	return tracing.New(sdktrace.NewTracerProvider(append(options, sdktrace.WithSpanProcessor(spans))...)), spans
}

const theirs = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestRequestGoesOnWithTheTraceOfItsClient(t *testing.T) {
	tracer, spans := recorded()
	for _, c := range []struct {
		traceparent string
		joined      bool
	}{{theirs, true}, {"", false}, {"00-nonsense", false}, {strings.Repeat("0", 1<<16), false}} {
		header := http.Header{"Traceparent": {c.traceparent}, "Tracestate": {"a=b"}}
		_, span := tracer.Request(t.Context(), header, false)
		span.Answered("GET /x", http.StatusOK, "id")
		ended := spans.Ended()
		got := ended[len(ended)-1]
		if joined := got.SpanContext().TraceID().String() == theirs[3:35]; joined != c.joined || got.Parent().IsValid() != c.joined {
			t.Errorf("%.60q: trace %v below %v", c.traceparent, got.SpanContext().TraceID(), got.Parent())
		}
		if got.SpanContext().TraceState().Len() > 0 {
			t.Errorf("state %v", got.SpanContext().TraceState())
		}
	}
}

// Neither by a flag nor by an id that a ratio of ids would take.
func TestClientCannotChooseToBeTraced(t *testing.T) {
	tracer, spans := recorded(sdktrace.WithSampler(tracing.Sampler(0)))
	for _, traceparent := range []string{theirs, "00-00000000000000000000000000000001-b7ad6b7169203331-01"} {
		ctx, span := tracer.Request(t.Context(), http.Header{"Traceparent": {traceparent}}, false)
		if _, below := tracing.Start(ctx, tracing.Manager, "exec"); below != (tracing.Span{}) {
			t.Error("a span below a request that is not traced")
		}
		span.Answered("GET /x", http.StatusOK, "id")
	}
	if n := len(spans.Ended()); n > 0 {
		t.Errorf("%d spans", n)
	}
	// Nor that it is not.
	tracer, spans = recorded(sdktrace.WithSampler(tracing.Sampler(1)))
	_, span := tracer.Request(t.Context(), http.Header{"Traceparent": {strings.TrimSuffix(theirs, "1") + "0"}}, false)
	span.Answered("GET /x", http.StatusOK, "id")
	if n := len(spans.Ended()); n != 1 {
		t.Errorf("%d spans of a client that wants none", n)
	}
}

// What the daemon asks of itself is traced where that is which asks, whatever the ratio.
func TestInsideFollowsWhatItBelongsTo(t *testing.T) {
	outer, _ := recorded()
	for _, c := range []struct {
		sampled bool
		ratio   float64
	}{{true, 0}, {false, 1}} {
		ctx := t.Context()
		if c.sampled {
			ctx, _ = outer.Request(ctx, nil, false)
		} else {
			ctx = trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}}))
		}
		header := http.Header{}
		tracing.Hand(ctx, header)
		tracer, spans := recorded(sdktrace.WithSampler(tracing.Sampler(c.ratio)))
		_, span := tracer.Request(t.Context(), header, true)
		span.Answered("GET /x", http.StatusOK, "id")
		if got := len(spans.Ended()) == 1; got != c.sampled {
			t.Errorf("ratio %v below a span that is kept: %v; kept: %v", c.ratio, c.sampled, got)
		}
	}
}

func TestToolsSpanHasIDsAndSizes(t *testing.T) {
	tracer, spans := recorded()
	ctx, _ := tracer.Request(t.Context(), nil, false)
	_, span := tracing.Tool(ctx, "sandbox_exec", "workflow:run-1", "")
	span.Called("not_found", 12, map[string]string{"session": "s", "exec": ""})
	got := spans.Ended()[0]
	if got.Name() != "tool.sandbox_exec" || got.Status().Code != codes.Error || got.Status().Description != "" {
		t.Errorf("%s, %+v", got.Name(), got.Status())
	}
	said := map[string]string{}
	for _, a := range got.Attributes() {
		said[string(a.Key)] = a.Value.String()
	}
	want := map[string]string{
		"sandkasten.tool": "sandbox_exec", "sandkasten.scope": "workflow:run-1", "sandkasten.session": "s",
		"sandkasten.answer_bytes": "12", "error.type": "not_found",
	}
	if !maps.Equal(said, want) {
		t.Errorf("%v, want %v", said, want)
	}
}

// A call may say its caller itself. Where it says nonsense the request does.
func TestToolGoesOnWithTheTraceOfItsCall(t *testing.T) {
	for _, c := range []struct {
		traceparent string
		joined      bool
	}{{theirs, true}, {strings.TrimSuffix(theirs, "1") + "0", true}, {"", false}, {"00-nonsense", false}, {strings.Repeat("0", 1<<16), false}} {
		// The ratio is of requests, and is not asked a second time.
		tracer, spans := recorded(sdktrace.WithSampler(tracing.Sampler(0.5)))
		var request tracing.Span
		ctx := t.Context()
		for !trace.SpanFromContext(ctx).IsRecording() {
			ctx, request = tracer.Request(t.Context(), nil, false)
		}
		mine := trace.SpanContextFromContext(ctx)
		below, span := tracing.Tool(ctx, "sandbox_exec", "workflow:run-1", c.traceparent)
		header := http.Header{}
		tracing.Hand(below, header)
		span.Called("", 0, nil)
		request.Answered("POST /mcp", http.StatusOK, "id")
		ended := spans.Ended()
		if len(ended) != 2 {
			t.Fatalf("%.60q: %d spans", c.traceparent, len(ended))
		}
		got, trace, parent := ended[0], mine.TraceID().String(), mine.SpanID().String()
		if c.joined {
			trace, parent = theirs[3:35], theirs[36:52]
		}
		if got.SpanContext().TraceID().String() != trace || got.Parent().SpanID().String() != parent {
			t.Errorf("%.60q: in %v below %v", c.traceparent, got.SpanContext().TraceID(), got.Parent().SpanID())
		}
		if linked := len(got.Links()) == 1 && got.Links()[0].SpanContext.SpanID() == mine.SpanID(); linked != c.joined {
			t.Errorf("%.60q: links %v", c.traceparent, got.Links())
		}
		if !strings.Contains(header.Get("Traceparent"), trace) {
			t.Errorf("%.60q: hands on %s", c.traceparent, header)
		}
	}
}

func TestFailureIsItsCodeAlone(t *testing.T) {
	tracer, spans := recorded()
	ctx, _ := tracer.Request(t.Context(), nil, false)
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
	ctx, request := tracer.Request(ctx, nil, false)
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
		ctx, request := tracer.Request(b.Context(), nil, false)
		ctx, manager := tracing.Start(ctx, tracing.Manager, "exec")
		_, runner := tracing.Start(ctx, tracing.Runner, "exec")
		runner.End(nil)
		manager.End(nil)
		request.Answered("POST /v1/sessions/{id}/exec", http.StatusOK, "id")
	}
}
