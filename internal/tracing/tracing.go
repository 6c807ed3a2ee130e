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
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
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

// Request begins the trace of a request. A traceparent in its header becomes a
// link and no more: whether a request is traced is not for clients to choose.
func (t *Tracer) Request(ctx context.Context, header http.Header) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	options := []trace.SpanStartOption{trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindServer)}
	if header.Get("Traceparent") != "" {
		of := propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(header))
		if theirs := trace.SpanContextFromContext(of).WithTraceState(trace.TraceState{}); theirs.IsValid() {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: theirs}))
		}
	}
	ctx, span := t.tracer.Start(ctx, "request", options...)
	return ctx, Span{span}
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
