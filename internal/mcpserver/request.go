package mcpserver

import (
	"context"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type requestKey struct{}

// WithRequest has the calls of a request over HTTP know it where the protocol's library
// does not hand it on: its header, and its end.
func WithRequest(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), requestKey{}, r))
}

// headerOf is the header of the request over HTTP that has brought a call, or nil.
func headerOf(ctx context.Context) http.Header {
	if r, ok := ctx.Value(requestKey{}).(*http.Request); ok {
		return r.Header
	}
	return nil
}

// endWithRequest ends a call when its client closes the request over HTTP that it came
// with: nobody reads its answer. The library does so for the newest protocol alone.
func endWithRequest(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		r, ok := ctx.Value(requestKey{}).(*http.Request)
		if !ok {
			return next(ctx, method, req)
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(r.Context(), cancel)()
		return next(ctx, method, req)
	}
}
