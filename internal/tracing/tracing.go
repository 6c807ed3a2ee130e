// Package tracing marks the steps of a request: what the API, the manager, a
// driver and a runner did for it, and how long each took. It begins and ends
// spans, and settles what may be in them. Where they go is internal/tracing/otlp's.
//
// A span is below the one of its context, and without one there it is none: what
// the daemon does by itself is not traced, and where tracing is off a span costs a
// look into the context. Nothing in a span comes from a sandbox or is of any
// length: no commands, no environment, no paths, no messages of errors.
package tracing

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// Name is the instrumentation scope of every span.
const Name = "github.com/sandkasten/sandkasten"

// Layer is whose step a span is. It begins the span's name.
type Layer string

// The layers below the API, from above.
const (
	Manager Layer = "manager"
	Driver  Layer = "driver"
	Runner  Layer = "runner"
	// ToolLayer is of the tools of agents, above the API that they call.
	ToolLayer Layer = "tool"
)

// Span is one step. The zero value is none, and its methods do nothing.
type Span struct{ span trace.Span }

// Start begins a step. operation is one of few that the source names. The caller
// ends the span.
func Start(ctx context.Context, layer Layer, operation string) (context.Context, Span) {
	above := trace.SpanFromContext(ctx)
	if !above.IsRecording() {
		return ctx, Span{}
	}
	ctx, span := above.TracerProvider().Tracer(Name).Start(ctx, string(layer)+"."+operation)
	return ctx, Span{span}
}

// Do makes a step of do.
func Do(ctx context.Context, layer Layer, operation string, do func(context.Context) error) error {
	ctx, span := Start(ctx, layer, operation)
	err := do(ctx)
	span.End(err)
	return err
}

// Name says what the step is, where that is known after its beginning only.
func (s Span) Name(layer Layer, operation string) {
	if s.span != nil {
		s.span.SetName(string(layer) + "." + operation)
	}
}

// Fail notes that the step failed, by the code of err alone. nil is no failure.
func (s Span) Fail(err error) {
	if s.span == nil || err == nil {
		return
	}
	s.span.SetStatus(codes.Error, "")
	s.span.SetAttributes(attribute.String("error.type", string(errdefs.CodeOf(err))))
}

// End ends the step, as Fail has it if err is not nil. Only the first End counts.
func (s Span) End(err error) {
	if s.span != nil {
		s.Fail(err)
		s.span.End()
	}
}

// Tracer begins traces. A nil Tracer begins none.
type Tracer struct{ tracer trace.Tracer }

// New returns a Tracer whose traces provider takes or leaves.
func New(provider trace.TracerProvider) *Tracer { return &Tracer{provider.Tracer(Name)} }

// Request begins the span of a request. One with a traceparent in its header goes on
// with that trace, but whether its spans are kept is not for clients to choose: the
// provider's sampler decides as for one without. Only what the daemon asks of itself,
// inside, is kept where that is which it belongs to.
func (t *Tracer) Request(ctx context.Context, header http.Header, inside bool) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	if header.Get("Traceparent") != "" {
		of := propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(header))
		theirs := trace.SpanContextFromContext(of).WithTraceState(trace.TraceState{}).WithRemote(!inside)
		ctx = trace.ContextWithSpanContext(ctx, theirs)
	}
	ctx, span := t.tracer.Start(ctx, "request", trace.WithSpanKind(trace.SpanKindServer))
	return ctx, Span{span}
}

// Hand gives the span of a context to a request, for Request of who answers it.
func Hand(ctx context.Context, header http.Header) {
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(header))
}

// Sampler keeps a ratio of all traces, by chance and not by their ids: clients choose
// these.
func Sampler(ratio float64) sdktrace.Sampler {
	byChance := chance(ratio)
	return sdktrace.ParentBased(byChance, sdktrace.WithRemoteParentSampled(byChance), sdktrace.WithRemoteParentNotSampled(byChance))
}

type chance float64

// ShouldSample implements sdktrace.Sampler.
func (c chance) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	result := sdktrace.SamplingResult{Tracestate: trace.SpanContextFromContext(p.ParentContext).TraceState()}
	if rand.Float64() < float64(c) { //nolint:gosec // nothing is secret in it
		result.Decision = sdktrace.RecordAndSample
	}
	return result
}

// Description implements sdktrace.Sampler.
func (c chance) Description() string { return fmt.Sprintf("Chance{%g}", float64(c)) }

// Tool begins the span of a call of a tool of agents. scope is whose it is. caller is
// the traceparent that the call itself brought, and empty without. Where that is valid
// the span is in its trace, and says by a link which request brought it; whether it is
// kept has been settled for that request.
func Tool(ctx context.Context, tool, scope, caller string) (context.Context, Span) {
	request := trace.SpanFromContext(ctx)
	if !request.IsRecording() {
		return ctx, Span{}
	}
	options := []trace.SpanStartOption{trace.WithAttributes(attribute.String("sandkasten.tool", tool), attribute.String("sandkasten.scope", scope))}
	if theirs := parse(caller); theirs.IsValid() {
		ctx = trace.ContextWithSpanContext(ctx, theirs.WithTraceFlags(trace.FlagsSampled).WithRemote(false))
		options = append(options, trace.WithLinks(trace.Link{SpanContext: request.SpanContext()}))
	}
	ctx, span := request.TracerProvider().Tracer(Name).Start(ctx, string(ToolLayer)+"."+tool, options...)
	return ctx, Span{span}
}

// parse is the span that a traceparent names. One of a malformed one is not valid.
func parse(traceparent string) trace.SpanContext {
	carrier := propagation.MapCarrier{"traceparent": traceparent}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier)) //nolint:forbidigo // it carries the answer alone
}

// Called ends the span of a call of a tool. attributes are names and values; those
// without a value are left out. code is of its error, or empty.
func (s Span) Called(code string, answerBytes int, attributes map[string]string) {
	if s.span == nil {
		return
	}
	for name, value := range attributes {
		if value != "" {
			s.span.SetAttributes(attribute.String("sandkasten."+name, value))
		}
	}
	s.span.SetAttributes(attribute.Int("sandkasten.answer_bytes", answerBytes))
	if code != "" {
		s.span.SetStatus(codes.Error, "")
		s.span.SetAttributes(attribute.String("error.type", code))
	}
	s.span.End()
}

// Answered ends the span of a request. pattern is its route's, and "" if it has
// none; id is that of its line in the log.
func (s Span) Answered(pattern string, status int, id string) {
	if s.span == nil {
		return
	}
	if !s.span.IsRecording() {
		s.span.End()
		return
	}
	if pattern != "" && pattern != "/" {
		s.span.SetName(pattern)
		_, path, _ := strings.Cut(pattern, " ")
		s.span.SetAttributes(attribute.String("http.route", path))
	}
	s.span.SetAttributes(attribute.Int("http.response.status_code", status), attribute.String("sandkasten.request_id", id))
	if status >= http.StatusInternalServerError {
		s.span.SetStatus(codes.Error, "")
	}
	s.span.End()
}
