package mcpserver

import (
	"context"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type callerKey struct{}

// maxTraceparent is longer than any that there is.
const maxTraceparent = 256

// withCaller has Traceparent know the span that a call of a tool belongs to, which
// clients say in its _meta (SEP-414): over standard streams there are no headers, and
// one HTTP request's are of the request and not of the call.
func withCaller(ctx context.Context, meta mcp.Meta) context.Context {
	traceparent, _ := meta["traceparent"].(string)
	foreign := func(r rune) bool { return !strings.ContainsRune("0123456789abcdef-", r) }
	if traceparent == "" || len(traceparent) > maxTraceparent || strings.ContainsFunc(traceparent, foreign) {
		return ctx
	}
	return context.WithValue(ctx, callerKey{}, traceparent)
}

// Traceparent is what a call of a tool says of the span it belongs to, or empty. What
// is plainly none is left out; it may be malformed still.
func Traceparent(ctx context.Context) string {
	traceparent, _ := ctx.Value(callerKey{}).(string)
	return traceparent
}

// HandCaller has requests to the daemon say the span that the call of a tool belongs
// to, which they are made for.
func HandCaller(base http.RoundTripper) http.RoundTripper { return handing{base} }

type handing struct{ base http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (h handing) RoundTrip(r *http.Request) (*http.Response, error) {
	if traceparent := Traceparent(r.Context()); traceparent != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Traceparent", traceparent)
	}
	return h.base.RoundTrip(r)
}
