package relay

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
)

// heldHeaders are the copies of a request whose headers nobody needs once its answer has
// begun. Parsed they take several times their size, and a stream goes on for as long as its
// two ends like.
type heldHeaders struct {
	asked, proxied *http.Request // as it came, and as ReverseProxy has it
	out, sent      *http.Request // as ReverseProxy sends it, and as the transport does
	written        atomic.Bool   // its headers are with the host
}

type headersKey struct{} // of *heldHeaders

// holdHeaders returns the request as it is proxied in ctx.
func holdHeaders(ctx context.Context, asked *http.Request) (proxied *http.Request) {
	h := &heldHeaders{asked: asked}
	ctx = context.WithValue(ctx, headersKey{}, h)
	h.proxied = asked.WithContext(context.WithValue(ctx, untracedKey{}, ctx))
	return h.proxied
}

// answered is for each answer before its body, which may be a stream of hours.
func answered(answer *http.Response) error {
	if held, ok := answer.Request.Context().Value(headersKey{}).(*heldHeaders); ok {
		held.drop()
	}
	return hideSecrets(answer)
}

// sending returns out for the transport, in ctx.
func (h *heldHeaders) sending(ctx context.Context, out *http.Request) *http.Request {
	if h == nil {
		return out.WithContext(ctx)
	}
	h.out = out
	h.sent = out.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:      func(httptrace.GotConnInfo) { h.written.Store(false) }, // also of another try
		WroteHeaders: func() { h.written.Store(true) },
	}))
	return h.sent
}

// drop lets go of the headers when an answer has begun. A host may answer before it has
// the whole request: then they are still being written.
func (h *heldHeaders) drop() {
	h.asked.Header, h.proxied.Header = nil, nil
	if !h.written.Load() || h.out == nil {
		return
	}
	all := h.out.Header
	kept := http.Header{}
	for _, name := range []string{"Connection", "Upgrade"} { // ReverseProxy compares them with the answer's
		if values := all[name]; values != nil {
			kept[name] = values
		}
	}
	h.out.Header, h.sent.Header = kept, kept
	maps.DeleteFunc(all, func(name string, _ []string) bool { return kept[name] == nil }) // of copies with a body
}
