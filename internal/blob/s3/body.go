package s3

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"
)

// bodyOnce keeps a request and its body together. A body is not read once
// there is an answer: transports may go on sending it when a server refuses a
// request early, while the client has already wound the same body back to try
// again. And a request whose body was sent whole is not given up before it is
// answered, or for a grace: the server may be about to keep a part, and would
// keep it for ever if the end of its upload came first.
type bodyOnce struct{ http.RoundTripper }

const grace = 10 * time.Second

func (t bodyOnce) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return t.RoundTripper.RoundTrip(r)
	}
	body := &body{ReadCloser: r.Body, left: r.ContentLength}
	defer body.end()
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	stop := context.AfterFunc(r.Context(), func() {
		if body.sent() {
			time.AfterFunc(grace, cancel)
			return
		}
		cancel()
	})
	r = r.Clone(ctx)
	r.Body, r.GetBody = body, nil
	answer, err := t.RoundTripper.RoundTrip(r)
	if err != nil {
		stop()
		cancel()
		return nil, err
	}
	answer.Body = &answered{answer.Body, func() { stop(); cancel() }}
	return answer, nil
}

type body struct {
	io.ReadCloser
	mu    sync.Mutex // held while ReadCloser is read
	ended bool       // guarded by mu
	left  int64      // guarded by mu: what was announced and is not read
}

func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return 0, io.ErrClosedPipe
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	return n, err
}

func (b *body) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
}

func (b *body) sent() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.left == 0
}

// answered is the body of an answer. It calls done when it is closed.
type answered struct {
	io.ReadCloser
	done func()
}

func (a *answered) Close() error {
	defer a.done()
	return a.ReadCloser.Close()
}
