package mcp

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandkasten/sandkasten/agents/tools"
	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/mcpserver"
	"github.com/sandkasten/sandkasten/internal/tracing"
)

// calls makes a span of each call of a tool, and counts it.
type calls struct {
	calls    *prometheus.CounterVec // nil without metrics, as are the others
	bytes    *prometheus.CounterVec
	errors   *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newCalls(registry prometheus.Registerer) *calls {
	if registry == nil {
		return &calls{}
	}
	c := &calls{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sandkasten_tool_calls_total", Help: "Calls of tools of agents, by tool and outcome: ok or refused.",
		}, []string{"tool", "outcome"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sandkasten_tool_answer_bytes_total", Help: "Bytes that tools of agents have answered for models to read, by tool.",
		}, []string{"tool"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sandkasten_tool_errors_total", Help: "Calls of tools of agents that could not be done, by tool and code.",
		}, []string{"tool", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sandkasten_tool_call_duration_seconds", Help: "Time that calls of tools of agents took, by tool.",
			Buckets: []float64{.001, .005, .01, .05, .1, .5, 1, 5, 30, 120, 600},
		}, []string{"tool"}),
	}
	registry.MustRegister(c.calls, c.bytes, c.errors, c.duration)
	return c
}

// observe implements tools.Observer. A tool's name is one of the table, and a code one
// of the API's, so that there are few series.
func (c *calls) observe(ctx context.Context, call tools.CallInfo) (context.Context, func(tools.Outcome)) {
	begun := time.Now()
	api.Made(ctx, "tool", call.Tool)
	ctx, span := tracing.Tool(ctx, call.Tool, call.Scope.String(), mcpserver.Traceparent(ctx))
	return ctx, func(o tools.Outcome) {
		if o.SandboxID != "" {
			api.Made(ctx, "session", o.SandboxID)
		}
		span.Called(o.Code, o.Bytes, map[string]string{"session": o.SandboxID, "exec": o.ExecID, "cause": o.Cause})
		if c.errors == nil {
			return
		}
		c.duration.WithLabelValues(call.Tool).Observe(time.Since(begun).Seconds())
		c.bytes.WithLabelValues(call.Tool).Add(float64(o.Bytes))
		outcome := "ok"
		if o.Code != "" {
			outcome = "refused"
			c.errors.WithLabelValues(call.Tool, o.Code).Inc()
		}
		c.calls.WithLabelValues(call.Tool, outcome).Inc()
	}
}
