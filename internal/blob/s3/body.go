package s3

import (
	"io"
	"net/http"
	"sync"
)

// bodyOnce keeps a request's body from being read once there is an answer.
// Transports may go on sending it when a server refuses a request early, while
// the client has already wound the same body back to try again.
type bodyOnce struct{ http.RoundTripper }

func (t bodyOnce) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return t.RoundTripper.RoundTrip(r)
	}
	body := &body{ReadCloser: r.Body}
	defer body.end()
	r = r.Clone(r.Context())
	r.Body, r.GetBody = body, nil
	return t.RoundTripper.RoundTrip(r)
}

type body struct {
	io.ReadCloser
	mu    sync.Mutex // held while ReadCloser is read
	ended bool       // guarded by mu
}

func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return 0, io.ErrClosedPipe
	}
	return b.ReadCloser.Read(p)
}

func (b *body) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
}
