package preview

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/rawpath"
)

// maxHeader bounds the headers of an answer, those before it included.
const maxHeader = 64 << 10

// newTransport dials anew for every request. That costs less than one exec,
// nothing of one visitor's connection is left for the next, and a session is
// in use for no longer than the request takes.
func (p *Previews) newTransport() *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			id, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			number, err := strconv.Atoi(port)
			if err != nil {
				return nil, err
			}
			conn, err := p.opts.Manager.Execs.Dial(ctx, api.Caller(ctx), id, number)
			if err != nil {
				return nil, err
			}
			return rawpath.FirstLine(ctx, newRestless(conn, p.opts.IdleTimeout)), nil
		},
		DisableKeepAlives:      true,
		DisableCompression:     true, // bytes go through as they are
		MaxResponseHeaderBytes: protection.Wider[int64](protection.AnswerHeader, maxHeader, 1<<10),
		ResponseHeaderTimeout:  p.opts.AnswerTimeout,
		ExpectContinueTimeout:  time.Second,
	}
}

// restless is a connection that breaks when nothing goes through it for long.
//
// It has nothing to read before something was written: what a server says
// unasked, the transport would write into the daemon's log.
type restless struct {
	net.Conn
	limit time.Duration
	asked chan struct{} // closed by ask
	ask   func()
}

func newRestless(conn net.Conn, limit time.Duration) *restless {
	asked := make(chan struct{})
	return &restless{Conn: conn, limit: limit, asked: asked, ask: sync.OnceFunc(func() { close(asked) })}
}

func (c *restless) Read(b []byte) (int, error) {
	<-c.asked
	if err := c.SetDeadline(time.Now().Add(c.limit)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

func (c *restless) Write(b []byte) (int, error) {
	c.ask()
	if err := c.SetDeadline(time.Now().Add(c.limit)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

func (c *restless) Close() error {
	c.ask()
	return c.Conn.Close()
}

// visit is one request on its way to a target.
type visit struct {
	p      *Previews
	target Target
	prefix string
	asked  rawpath.Target // behind the prefix, as the client wrote it, without a token
	in     *http.Request
	body   *body
	whole  bool // the request's URL is all of asked
}

// Serve passes an admitted request on to the server at a target, WebSockets
// and streams included. prefix is what of the request's path is not the
// server's: "" where the target has a host of its own.
func (p *Previews) Serve(w http.ResponseWriter, r *http.Request, t Target, prefix string) {
	if err := p.allowed(r.Context(), t); err != nil {
		api.WriteError(w, r, err)
		return
	}
	if r.Method == http.MethodConnect || r.Method == http.MethodTrace {
		w.Header().Set("Allow", "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT")
		api.WriteError(w, r, api.MethodNotAllowed(r.Method))
		return
	}
	target := rawpath.Of(r)
	if !strings.HasPrefix(target.Path, prefix+"/") {
		api.WriteError(w, r, errdefs.New(errdefs.InvalidArgument, "the path is not well-formed"))
		return
	}
	asked := askedFor(target, prefix)
	if prefix != "" && r.Header.Get("Service-Worker") != "" {
		api.WriteError(w, r, errdefs.New(errdefs.PermissionDenied, "a preview below a path of the API cannot have service workers; configure preview.domain"))
		return
	}
	if p.keep(w, r, t, prefix, asked.Path) {
		return
	}
	ctx, stop := p.endWithTokens(r, t)
	defer stop()
	v := &visit{p: p, target: t, prefix: prefix, asked: asked, in: r.WithContext(ctx)}
	v.serve(w)
}

// askedFor is what the server gets of a target below a prefix: nothing of ours.
func askedFor(target rawpath.Target, prefix string) rawpath.Target {
	return rawpath.Target{Path: strings.TrimPrefix(target.Path, prefix), Query: withoutTokenIn(target.Query)}
}

func (v *visit) serve(w http.ResponseWriter) {
	control := http.NewResponseController(w)
	r := v.in
	if r.Body != nil && r.Body != http.NoBody {
		// Without this the body counts as broken if the answer begins before its end
		// was seen, and the answer breaks with it.
		if err := control.EnableFullDuplex(); err != nil {
			api.Failed(r.Context(), err)
		}
		v.body = &body{in: r.Body, control: control}
		r = r.WithContext(r.Context())
		r.Body = v.body
	}
	// The server says what may be cached, and at its own host how types are
	// to be taken.
	w.Header().Del("Cache-Control")
	if v.prefix == "" {
		w.Header().Del("X-Content-Type-Options")
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:        v.rewrite,
		Transport:      roundTripper(v.roundTrip),
		FlushInterval:  -1, // streams are not held back
		BufferPool:     buffers{},
		ModifyResponse: v.modify,
		ErrorHandler:   v.fail,
		ErrorLog:       silence, // an answer that breaks off is the server's affair, and the client sees it
	}
	proxy.ServeHTTP(api.Patient(w), r)
}

// rewrite makes the request that goes in. The hop-by-hop headers, and those
// that a Connection header names, are gone already: what is set here stays.
func (v *visit) rewrite(r *httputil.ProxyRequest) {
	out := r.Out
	out.URL.Scheme = "http"
	out.URL.Host = net.JoinHostPort(string(v.target.Session), strconv.Itoa(v.target.Port))
	v.whole = rawpath.Set(out.URL, v.asked)
	out.Host = r.In.Host
	cleanRequest(out.Header)
	if local := v.localHost(); local != "" {
		out.Host = local
		if isAt(out.Header.Get("Origin"), r.In.Host) { // what compares the two finds the same again
			out.Header.Set("Origin", "http://"+local)
		}
	}
	if up := out.Header.Get("Upgrade"); !strings.EqualFold(up, "websocket") {
		out.Header.Del("Upgrade")
		out.Header.Del("Connection")
	}
	out.Header.Set("X-Forwarded-Proto", v.p.scheme(api.From(r.In.Context())))
	out.Header.Set("X-Forwarded-Host", r.In.Host)
	if v.prefix != "" {
		out.Header.Set("X-Forwarded-Prefix", v.prefix)
	}
}

// localHost is what the server takes for its own host, where that is not the client's.
func (v *visit) localHost() string {
	if v.prefix != "" || v.p.opts.KeepHost {
		return ""
	}
	return "localhost:" + strconv.Itoa(v.target.Port)
}

// hostOf is the beginning of an address without its scheme, up to its path.
func hostOf(rest string) string {
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		return rest[:end]
	}
	return rest
}

// isAt reports whether an address is one of a host.
func isAt(address, host string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && strings.EqualFold(withoutPort(u.Host), withoutPort(host))
}

var silence = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// roundTrip leaves out the trace through which ReverseProxy passes on answers
// with a status of 1xx: their headers would not be cleaned, and their number
// has no limit then.
func (v *visit) roundTrip(r *http.Request) (*http.Response, error) {
	ctx := v.in.Context()
	if !v.whole {
		ctx = rawpath.With(ctx, v.asked)
	}
	return v.p.transport.RoundTrip(r.WithContext(ctx))
}

func (v *visit) modify(response *http.Response) error {
	api.From(v.in.Context()).Foreign = true
	cleanAnswer(response.Header, v.in.Host, v.prefix, &url.URL{Path: rawpath.Plain(v.asked.Path), RawPath: v.asked.Path})
	if local := v.localHost(); local != "" && isAt(response.Header.Get("Location"), local) {
		_, rest, _ := strings.Cut(response.Header.Get("Location"), "://")
		response.Header.Set("Location", v.p.scheme(api.From(v.in.Context()))+"://"+v.in.Host+rest[len(hostOf(rest)):])
	}
	return nil
}

// fail answers when the server did not.
func (v *visit) fail(w http.ResponseWriter, r *http.Request, err error) {
	w.Header().Set("Cache-Control", "no-store")
	if theirs := v.body.failure(); theirs != nil {
		err = theirs
	} else if r.Context().Err() == nil {
		err = v.explain(err)
	}
	code := errdefs.CodeOf(err)
	api.From(r.Context()).Foreign = code == api.BadGateway || code == api.GatewayTimeout
	api.WriteError(w, r, err)
}

// explain tells what is wrong with a server from what is wrong with its session.
func (v *visit) explain(err error) error {
	own, isOwn := errors.AsType[*errdefs.Error](err)
	late, isNet := errors.AsType[net.Error](err)
	switch {
	case isOwn && own.Code == errdefs.NotFound:
		return errdefs.Wrap(err, api.BadGateway, "%s", own.Message)
	case isOwn:
		return err
	case isNet && late.Timeout():
		return errdefs.Wrap(err, api.GatewayTimeout, "the server on port %d in the sandbox did not answer in time", v.target.Port)
	default:
		return errdefs.Wrap(err, api.BadGateway, "the server on port %d in the sandbox broke off or did not answer with HTTP", v.target.Port)
	}
}

// body gives a client a new deadline for every read, and remembers whether it
// was the client that failed. The transport may go on reading for a moment
// when the answer is through: after Close it gets nothing, and the deadline of
// the client's next request is left alone.
type body struct {
	control *http.ResponseController

	mu     sync.Mutex
	in     io.ReadCloser // guarded by mu
	err    error         // guarded by mu; the client's
	closed bool          // guarded by mu
}

func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	if b.err = b.control.SetReadDeadline(time.Now().Add(api.BodyTimeout)); b.err != nil {
		return 0, b.err
	}
	n, err := b.in.Read(p)
	if !errors.Is(err, io.EOF) {
		b.err = err
		return n, err
	}
	// The answer may take longer than the rest of the body would have.
	if b.err = b.control.SetReadDeadline(time.Time{}); b.err != nil {
		return n, b.err
	}
	return n, io.EOF
}

func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return b.in.Close()
}

// failure is what kept the client's body from arriving, if anything did.
func (b *body) failure() error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// buffers is what copies of bodies use.
type buffers struct{}

var pool = sync.Pool{New: func() any { return make([]byte, 32<<10) }}

func (buffers) Get() []byte  { return pool.Get().([]byte) }
func (buffers) Put(b []byte) { pool.Put(b) } //nolint:staticcheck // a slice's header is small beside 32 KiB
