package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/protection"
)

// serveWatched serves a request for as long as its credential is valid. What waits
// for the client's bytes when the credential ends waits no longer.
func (h *handler) serveWatched(w http.ResponseWriter, r *http.Request, route Route) {
	watcher, ok := h.keys.(auth.Watcher)
	if !ok || protection.Off(protection.StreamEnd) {
		h.under.serve(w, r, route)
		return
	}
	ctx, stop := watcher.Watch(r.Context(), Caller(r.Context()))
	defer stop()
	if id := From(ctx).SignIn; id != "" {
		ctx, stop = h.signIns.Watch(ctx, id)
		defer stop()
	}
	if ends := From(ctx).ends; !ends.IsZero() {
		ctx, stop = endingAt(ctx, ends)
		defer stop()
	}
	if hasEnded(ctx) {
		WriteError(w, r, errUnauthenticated(auth.ErrEnded))
		return
	}
	r = r.WithContext(ctx)
	if r.ContentLength != 0 {
		body := &revocableBody{ReadCloser: r.Body}
		r.Body = body
		defer body.endWith(ctx, w)()
	}
	h.under.serve(w, r, route)
}

// endingAt returns a context that ends with ctx, and as one whose credential has ended
// at a time.
func endingAt(ctx context.Context, end time.Time) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	expire := time.AfterFunc(time.Until(end), func() { cancel(auth.ErrEnded) })
	return ctx, func() {
		expire.Stop()
		cancel(nil)
	}
}

// hasEnded reports whether ctx ended with the credential of its request.
func hasEnded(ctx context.Context) bool { return errors.Is(context.Cause(ctx), auth.ErrEnded) }

// revocableBody is a request's body that ends with the request's credential.
type revocableBody struct {
	io.ReadCloser

	mu      sync.Mutex
	reading bool // guarded by mu
	ended   bool // guarded by mu
}

// Read reads, until the credential ends.
func (b *revocableBody) Read(p []byte) (n int, err error) {
	b.mu.Lock()
	if b.ended {
		b.mu.Unlock()
		return 0, auth.ErrEnded
	}
	b.reading = true
	b.mu.Unlock()
	n, err = b.ReadCloser.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading = false
	return n, err
}

// endWith has the body end when ctx ends with the credential. The caller calls stop
// before its handler returns.
func (b *revocableBody) endWith(ctx context.Context, w http.ResponseWriter) (stop func()) {
	done := make(chan struct{})
	keep := context.AfterFunc(ctx, func() {
		defer close(done)
		if !hasEnded(ctx) {
			return
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.ended = true
		// Only while the body is read: net/http watches the connection at other
		// times, and takes the failure for its end.
		if b.reading {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now()) // fails where the connection is gone
		}
	})
	return func() {
		if !keep() {
			<-done
		}
	}
}
