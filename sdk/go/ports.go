package sandkasten

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Port is a port on which something in a session listens.
type Port struct {
	Port     int    `json:"port"`
	Address  string `json:"address"`
	Loopback bool   `json:"loopback"`
	URL      string `json:"url"`
}

// ListPorts returns the ports on which something in the session listens.
func (s *Session) ListPorts(ctx context.Context) ([]Port, error) {
	var list []Port
	err := s.client.call(ctx, get(s.path+"/ports"), &list)
	return list, err
}

// FetchPort sends a request to a server in the session, once. Of the request's
// address only path and query count. The answer is the server's, whatever its
// status, or 502 by the daemon if nothing listens; the caller closes its body. A
// redirect is an answer, and not followed.
func (s *Session) FetchPort(port int, req *http.Request) (*http.Response, error) {
	path := s.path + "/ports/" + strconv.Itoa(port) + "/"
	address, err := url.Parse(s.client.base + path)
	if err != nil {
		return nil, fmt.Errorf("port %d: %w", port, err)
	}
	out := req.Clone(req.Context())
	out.URL = address.JoinPath(req.URL.EscapedPath())
	out.URL.RawQuery = req.URL.RawQuery
	out.Host = ""
	s.client.authorize(out.Header)
	resp, err := s.client.http.Do(out)
	if err != nil {
		return nil, s.client.broken(req.Context(), request{method: req.Method, path: path}, err)
	}
	return resp, nil
}

// PreviewOptions says how long a preview is valid.
type PreviewOptions struct {
	TTL time.Duration // whole seconds
}

// Preview opens one port to whoever has its token.
type Preview struct {
	Port      int       `json:"port"`
	Token     string    `json:"token"`
	URL       string    `json:"url"` // with the token, for a browser
	ExpiresAt time.Time `json:"expires_at"`
}

// CreatePreview makes a token for a port.
func (s *Session) CreatePreview(ctx context.Context, port int, o *PreviewOptions) (Preview, error) {
	body := struct {
		Port       int   `json:"port"`
		TTLSeconds int64 `json:"ttl_seconds,omitempty"`
	}{port, seconds(value(o).TTL)}
	var preview Preview
	err := s.client.call(ctx, post(s.path+"/previews", body), &preview)
	return preview, err
}
