package relay

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandkasten/sandkasten/internal/headers"
	"github.com/sandkasten/sandkasten/internal/network"
	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/rawpath"
)

// looksLikeHTTP reports whether the first bytes of a connection are those of a
// request of HTTP/1: a method and a space.
func looksLikeHTTP(first []byte) bool {
	method, rest, ended := bytes.Cut(bytes.TrimLeft(first, "\r\n"), []byte{' '})
	if !ended && len(method)+len(rest) < maxPeek {
		return false
	}
	return len(method) > 0 && len(bytes.Trim(method, tokenCharacters)) == 0
}

// tokenCharacters are those of methods in use.
const tokenCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-"

// mayBecomeHTTP reports whether more bytes could make a request of these.
func mayBecomeHTTP(first []byte) bool {
	return len(bytes.Trim(bytes.TrimLeft(first, "\r\n"), tokenCharacters)) == 0
}

// forbidden is an answer of HTTP that says why.
func forbidden(why string) string {
	body := refusalText(why)
	return fmt.Sprintf("HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
}

func refusalText(why string) string {
	return "The network policy of this sandbox refuses this: " + why + ".\n"
}

const (
	webRequest = 16 << 10 // bytes of one request's line and headers
	webFields  = 256      // of them
	webAnswer  = 64 << 10 // bytes of an answer's headers
	webHeader  = 30 * time.Second
	webIdle    = 5 * time.Minute

	maxRequests = 128 // of one sandbox at once
	maxStreams  = 32  // of one connection of HTTP/2
	maxPerHost  = 32  // connections outside
	maxSpare    = 16  // of those that are not in use
)

// webProxy carries HTTP whose requests are looked at: plain HTTP, and the TLS of hosts
// that get secrets. Each request has to name an allowed host, also the later ones of
// a connection. Requests are parsed and written anew, so that no two readers can
// understand them differently.
type webProxy struct {
	relay  *Relay
	server *http.Server
	proxy  *httputil.ReverseProxy
	plain  atomic.Pointer[http.Transport]
	secure atomic.Pointer[http.Transport]

	incoming chan net.Conn
	asking   chan struct{} // a token for each request
	closed   chan struct{}
	once     sync.Once
}

func newWebProxy(r *Relay) *webProxy {
	times := protection.Wider(protection.WebRequests, 1, 100)
	p := &webProxy{relay: r, incoming: make(chan net.Conn), asking: make(chan struct{}, times*maxRequests), closed: make(chan struct{})}
	silent := slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // a sandbox can cause any of it
	p.server = &http.Server{
		Handler: p, DisableGeneralOptionsHandler: true, // which would answer OPTIONS * in the host's place
		ErrorLog: silent, ReadHeaderTimeout: webHeader, IdleTimeout: webIdle, MaxHeaderBytes: webRequest, ConnState: headers.Watch,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: times * maxStreams, MaxReceiveBufferPerConnection: 256 << 10, MaxReceiveBufferPerStream: 64 << 10},
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			if bounded, ok := conn.(*headers.Conn); ok {
				conn = bounded.Conn
			}
			if secured, ok := conn.(*tls.Conn); ok {
				conn = secured.NetConn()
			}
			web, _ := conn.(*webConn)
			return context.WithValue(ctx, webConnKey{}, web)
		},
	}
	p.forget()
	p.proxy = &httputil.ReverseProxy{
		Rewrite: p.rewrite, FlushInterval: -1, ErrorLog: silent, ErrorHandler: notReached, Transport: p, ModifyResponse: answered,
	}
	return p
}

// transport is how hosts are reached.
func (p *webProxy) transport() *http.Transport {
	return &http.Transport{
		DialContext: p.dial, TLSClientConfig: &tls.Config{RootCAs: p.relay.opts.Roots, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true, DisableCompression: true, MaxResponseHeaderBytes: webAnswer,
		MaxConnsPerHost: maxPerHost, MaxIdleConnsPerHost: 4, MaxIdleConns: maxSpare, IdleConnTimeout: time.Minute,
		// What a sandbox asks for and does not read waits in the daemon's memory.
		HTTP2: &http.HTTP2Config{MaxReceiveBufferPerConnection: 1 << 20, MaxReceiveBufferPerStream: 256 << 10},
	}
}

// forget has requests from now on use new connections outside. Those that no request uses
// it closes; the others end with their requests.
func (p *webProxy) forget() {
	for _, one := range []*atomic.Pointer[http.Transport]{&p.plain, &p.secure} {
		if old := one.Swap(p.transport()); old != nil {
			old.CloseIdleConnections()
		}
	}
}

// RoundTrip sends a request to where its connection leads. It leaves out the trace through
// which ReverseProxy passes on answers with a status of 1xx: their number has no limit then.
func (p *webProxy) RoundTrip(r *http.Request) (*http.Response, error) {
	web, ok := r.Context().Value(webConnKey{}).(*webConn)
	plain, whole := r.Context().Value(untracedKey{}).(context.Context)
	if !ok || !whole {
		return nil, errors.New("a request of no connection")
	}
	ctx, through := plain, http.RoundTripper(nil)
	switch {
	case r.Context().Value(ownKey{}) != nil:
		ctx, through = p.own(r.WithContext(plain), web.secure)
	case web.secure == "":
		through = p.plain.Load()
	default:
		through = p.secure.Load()
	}
	held, _ := plain.Value(headersKey{}).(*heldHeaders)
	return through.RoundTrip(held.sending(ctx, r))
}

type (
	webConnKey  struct{}
	secretsKey  struct{} // of those that a request may be filled with
	ownKey      struct{} // of a request that needs a connection of its own
	untracedKey struct{} // of a request's context before ReverseProxy's
)

// secretsFor are those that a request may be filled with.
func secretsFor(r *http.Request) []network.Compiled {
	secrets, _ := r.Context().Value(secretsKey{}).([]network.Compiled)
	return secrets
}

// serve answers until close.
func (p *webProxy) serve() { _ = p.server.Serve(p) }

// close ends all connections.
func (p *webProxy) close() {
	_ = p.Close()
	_ = p.server.Close()
	p.forget()
}

// Accept is for the server, as are the next two.
func (p *webProxy) Accept() (net.Conn, error) {
	select {
	case conn := <-p.incoming:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *webProxy) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr implements net.Listener.
func (p *webProxy) Addr() net.Addr { return &net.TCPAddr{} }

// carry serves the requests of a connection, of which first has been read, and
// returns when it has ended. With a certificate the client speaks TLS.
func (p *webProxy) carry(ctx context.Context, c *connection, first []byte, as *tls.Certificate) {
	conn := &webConn{TCPConn: c.client, of: c, first: first, ctx: ctx, ended: make(chan struct{})}
	var served net.Conn = headers.NewConn(conn, webLimits, nil)
	if as != nil {
		conn.secure = c.host()
		secured, err := handshake(ctx, conn, as)
		if err != nil {
			reset(c.client)
			c.closed(conn.sent.Load(), conn.received.Load())
			return
		}
		served = secured
	}
	select {
	case p.incoming <- served:
		<-conn.ended
	case <-p.closed:
		reset(c.client)
		return
	}
	c.closed(conn.sent.Load(), conn.received.Load())
}

// webLimits are those of a request of HTTP/1; those of HTTP/2 count each field.
var webLimits = headers.Limits{
	Fields: webFields, Bytes: webRequest,
	TooLarge: []byte("HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n" +
		"The request has more headers than the network of this sandbox takes.\n"),
}

// handshake has the client speak TLS. What it says then is bounded by fields, if it is
// HTTP/1.
func handshake(ctx context.Context, conn *webConn, as *tls.Certificate) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, webHeader)
	defer cancel()
	secured := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{*as}, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12})
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	if secured.ConnectionState().NegotiatedProtocol == "h2" {
		return secured, nil
	}
	return headers.NewConn(secured, webLimits, nil), nil
}

// webConn is a connection that the server serves.
type webConn struct {
	*net.TCPConn

	of     *connection
	ctx    context.Context
	first  []byte // read already, and to be read first
	secure string // the host that we stand for; "" where HTTP is plain

	sent, received atomic.Int64
	ended          chan struct{}
	once           sync.Once
}

// Read counts what the client sends.
func (w *webConn) Read(p []byte) (int, error) {
	n, err := copy(p[:min(len(p), burst)], w.first), error(nil)
	w.first = w.first[n:]
	if n == 0 {
		n, err = w.TCPConn.Read(p[:min(len(p), burst)])
	}
	w.sent.Add(int64(n))
	if held := w.of.pass(w.ctx, w.of.relay.sending, n); held != nil {
		return 0, held
	}
	return n, err
}

// Write counts what the client gets, and waits for the relay's limit of bytes.
func (w *webConn) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		piece := p[:min(len(p), burst)]
		if err := w.of.pass(w.ctx, w.of.relay.receiving, len(piece)); err != nil {
			return n, err
		}
		written, err := w.TCPConn.Write(piece)
		n += written
		w.received.Add(int64(written))
		if err != nil {
			return n, err
		}
		p = p[written:]
	}
	return n, nil
}

// ReadFrom has whoever copies to the connection use Write.
func (w *webConn) ReadFrom(from io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{w}, from)
}

// WriteTo has whoever copies from the connection use Read.
func (w *webConn) WriteTo(to io.Writer) (int64, error) {
	return io.Copy(to, struct{ io.Reader }{w})
}

// Close ends the connection.
func (w *webConn) Close() error {
	w.once.Do(func() { close(w.ended) })
	return w.TCPConn.Close()
}

// ServeHTTP answers one request.
func (p *webProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	web, ok := r.Context().Value(webConnKey{}).(*webConn)
	if !ok {
		http.Error(w, "no connection", http.StatusInternalServerError)
		return
	}
	select {
	case p.asking <- struct{}{}:
		defer func() { <-p.asking }()
	default:
		p.relay.counters.hit(LimitRequests)
		http.Error(w, "The sandbox has too many requests under way.", http.StatusServiceUnavailable)
		return
	}
	c := web.of
	name, why := hostOf(r, c.to.Port())
	if why == "" && web.secure != "" && name != web.secure {
		http.Error(w, "This connection is for "+web.secure+".", http.StatusMisdirectedRequest)
		return
	}
	if why == "" && web.secure != "" && (r.Method == http.MethodTrace || r.Method == "TRACK") {
		why = r.Method + " would show what stays outside of the sandbox"
	}
	if why == "" {
		verdict := c.decide(r.Context(), name)
		if why = verdict.Why; verdict.Allowed || protection.Off(protection.RequestHosts) {
			p.relay.record(c.event(OpRequest, true, why))
			c.countOpened()
			ctx := r.Context()
			if web.secure != "" {
				// The answer has to be looked at for what was sent, whatever the secrets are then.
				ctx = context.WithValue(ctx, secretsKey{}, p.relay.secretsOf(web.secure))
			}
			p.proxy.ServeHTTP(finalOnly{w}, holdHeaders(ctx, r))
			return
		}
	}
	event := c.event(OpRequest, false, why)
	if web.secure == "" {
		event.Entry = c.remedy(shownBy(name))
	}
	p.relay.record(event)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Connection", "close")
	w.WriteHeader(http.StatusForbidden)
	_, _ = io.WriteString(w, refusalText(why))
}

// finalOnly leaves out answers like 103: nobody looks at them for secrets, and a
// server could send them without end.
type finalOnly struct{ http.ResponseWriter }

// WriteHeader writes the status of an answer that is one.
func (f finalOnly) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		f.ResponseWriter.WriteHeader(status)
	}
}

// Unwrap is for http.ResponseController.
func (f finalOnly) Unwrap() http.ResponseWriter { return f.ResponseWriter }

// shownBy is what a request shows whose Host is name, or "" where it names none.
func shownBy(name string) network.Shown {
	if name == "" {
		return network.ShowsNone
	}
	return network.ShowsHost
}

// hostOf is the host that a request to port names, or why it names none.
func hostOf(r *http.Request, port uint16) (name, why string) {
	if r.Method == http.MethodConnect {
		return "", "CONNECT leads elsewhere; a sandbox needs no proxy, it connects to the host itself"
	}
	if upgrade := r.Header["Upgrade"]; len(upgrade) > 1 || len(upgrade) == 1 && !strings.EqualFold(upgrade[0], "websocket") {
		return "", "it asks for another protocol than HTTP/1.1 and WebSocket, as h2c, which would hide requests"
	}
	// Whatever else a target can be, a server may read another host out of it.
	if r.URL.Opaque != "" || r.URL.User != nil || !strings.HasPrefix(r.URL.Path, "/") && (r.URL.Path != "*" || r.Method != http.MethodOptions) {
		return "", "its target is no path"
	}
	host := r.Host
	if before, text, ok := strings.Cut(host, ":"); ok {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || uint16(n) != port {
			return "", "its Host names another port than it uses"
		}
		host = before
	}
	name, err := network.NormalName(host)
	if err != nil {
		return "", "its Host is no name: " + err.Error()
	}
	return name, ""
}

// rewrite sends a request where the connection leads, with the secrets of its host,
// and leaves the rest as it is.
func (p *webProxy) rewrite(pr *httputil.ProxyRequest) {
	web, ok := pr.In.Context().Value(webConnKey{}).(*webConn)
	if !ok {
		return
	}
	pr.Out.URL.Scheme, pr.Out.URL.Host = "http", web.of.to.String()
	if !rawpath.Set(pr.Out.URL, rawpath.Of(pr.In)) {
		pr.Out = pr.Out.WithContext(context.WithValue(pr.Out.Context(), ownKey{}, true))
	}
	pr.Out.Host = web.of.host() // as it was decided about
	if _, port, ok := strings.Cut(pr.In.Host, ":"); ok {
		pr.Out.Host += ":" + port
	}
	for name, values := range pr.In.Header {
		if name == "Forwarded" || strings.HasPrefix(name, "X-Forwarded-") {
			pr.Out.Header[name] = values
		}
	}
	if web.secure == "" {
		return
	}
	pr.Out.URL.Scheme, pr.Out.URL.Host = "https", net.JoinHostPort(web.secure, strconv.Itoa(int(web.of.to.Port())))
	pr.Out.Header.Set("Accept-Encoding", "identity") // so that hideSecrets can read the answer
	for _, name := range partial {
		pr.Out.Header.Del(name)
	}
	for _, secret := range secretsFor(pr.In) {
		secret.Fill(pr.Out.URL, pr.Out.Header)
	}
}

// partial are the fields by which a client asks for a part of an answer: of a value that is
// cut in two nobody sees that it is one. The answer is whole without them.
var partial = []string{"Range", "If-Range"}

// hideSecrets takes out of an answer what the host repeats of its request, whatever the
// answer says that its body is.
func hideSecrets(answer *http.Response) error {
	if protection.Off(protection.SecretMask) {
		return nil
	}
	secrets := secretsFor(answer.Request)
	if len(secrets) == 0 {
		return nil
	}
	hide := func(header http.Header) {
		for _, secret := range secrets {
			secret.Hide(header)
		}
	}
	hide(answer.Header)
	answer.Status = "" // its words are the host's
	if answer.StatusCode == http.StatusPartialContent {
		return errPartial
	}
	if answer.StatusCode == http.StatusSwitchingProtocols { // whose body is also written to
		return nil
	}
	answer.Body = &trailed{answer.Body, answer.Body, func() { hide(answer.Trailer) }}
	if answer.Request.Method == http.MethodHead {
		return nil
	}
	answer.Body = &trailed{network.HideIn(answer.Body, secrets), answer.Body, func() {}}
	answer.ContentLength = -1 // placeholders have other lengths
	answer.Header.Del("Content-Length")
	return nil
}

var errPartial = errors.New("it sent a part of an answer that was asked for as a whole, in which no secret can be found")

// trailed is a body behind whose end the trailers are known.
type trailed struct {
	io.Reader
	io.Closer

	ended func()
}

func (t *trailed) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	if err == io.EOF {
		t.ended()
	}
	return n, err
}

func notReached(w http.ResponseWriter, _ *http.Request, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(http.StatusBadGateway)
	text := "The host was not reached: " + plainError(err)
	if errors.Is(err, errPartial) {
		text = "The host's answer is left out: " + errPartial.Error()
	}
	_, _ = io.WriteString(w, text+".\n")
}
