package relay

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"

	"github.com/sandkasten/sandkasten/internal/rawpath"
)

// own returns the context and the transport that send a request on a connection of its own,
// where net/http would not write what the client asked for.
func (p *webProxy) own(r *http.Request, secure string) (context.Context, http.RoundTripper) {
	t := p.transport()
	t.DisableKeepAlives, t.ForceAttemptHTTP2 = true, false
	t.DialContext = func(ctx context.Context, network, to string) (net.Conn, error) {
		conn, err := p.dial(ctx, network, to)
		if err != nil {
			return nil, err
		}
		return rawpath.FirstLine(ctx, conn), nil
	}
	t.DialTLSContext = func(ctx context.Context, network, to string) (net.Conn, error) {
		conn, err := p.dial(ctx, network, to)
		if err != nil {
			return nil, err
		}
		config := t.TLSClientConfig.Clone()
		config.ServerName = secure
		secured := tls.Client(conn, config)
		if err := secured.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return rawpath.FirstLine(ctx, secured), nil
	}
	target := rawpath.Of(r)
	if target.Query = ""; r.URL.RawQuery != "" || r.URL.ForceQuery {
		target.Query = "?" + r.URL.RawQuery // with a secret
	}
	return rawpath.With(r.Context(), target), t
}

// dial reaches the address of the connection that the request came by.
func (p *webProxy) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	web, ok := ctx.Value(webConnKey{}).(*webConn)
	if !ok {
		return nil, errors.New("a request of no connection")
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	return p.relay.opts.Dial(ctx, network, web.of.to.String())
}
