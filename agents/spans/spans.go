// Package spans traces agents with OpenTelemetry: a workflow, its steps, the agents'
// turns and the calls of their tools. What it makes goes to the program's own provider
// of spans, and nowhere without one. Spans have names, ids, codes and sizes, and no
// content.
//
// The daemon's spans come below them where requests go through [Transport]:
//
//	sandkasten.New(sandkasten.Options{WrapTransport: spans.Transport})
package spans

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/sandkasten/sandkasten/agents/tools"
)

const scopeName = "github.com/sandkasten/sandkasten/agents"

// Start begins a span, as "agent writer". attributes are names and values in turn.
// The caller calls end.
func Start(ctx context.Context, name string, attributes ...string) (_ context.Context, end func(error)) {
	var with []attribute.KeyValue
	for i := 0; i+1 < len(attributes); i += 2 {
		with = append(with, attribute.String("sandkasten."+attributes[i], attributes[i+1]))
	}
	ctx, span := otel.Tracer(scopeName).Start(ctx, name, trace.WithAttributes(with...))
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}

// Observe implements tools.Observer with a span of each call.
func Observe(ctx context.Context, call tools.CallInfo) (context.Context, func(tools.Outcome)) {
	ctx, span := otel.Tracer(scopeName).Start(ctx, "tool."+call.Tool, trace.WithAttributes(
		attribute.String("sandkasten.tool", call.Tool), attribute.String("sandkasten.scope", call.Scope.String())))
	return ctx, func(o tools.Outcome) {
		for name, value := range map[string]string{"session": o.SandboxID, "exec": o.ExecID, "cause": o.Cause} {
			if value != "" {
				span.SetAttributes(attribute.String("sandkasten."+name, value))
			}
		}
		span.SetAttributes(attribute.Int("sandkasten.answer_bytes", o.Bytes))
		if o.Code != "" {
			span.SetStatus(codes.Error, "")
			span.SetAttributes(attribute.String("error.type", o.Code))
		}
		span.End()
	}
}

// Transport has the requests that base makes say which span they belong to.
func Transport(base http.RoundTripper) http.RoundTripper { return transport{base} }

type transport struct{ base http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !trace.SpanContextFromContext(r.Context()).IsValid() {
		return t.base.RoundTrip(r)
	}
	r = r.Clone(r.Context())
	propagation.TraceContext{}.Inject(r.Context(), propagation.HeaderCarrier(r.Header))
	return t.base.RoundTrip(r)
}
