// Package api holds what every HTTP surface shares: the table of routes and
// who may call them, host and origin checks, keys, rates, request ids, the
// access and audit logs, metrics, the error body, event streams, and the collecting of a
// command's output. It knows nothing of sessions. Surfaces are folders below
// it, and none of them imports another.
package api

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandkasten/sandkasten/internal/admission/fairqueue"
	"github.com/sandkasten/sandkasten/internal/audit"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/rawpath"
	"github.com/sandkasten/sandkasten/internal/tracing"
)

// Scope says what a caller must show to use a route.
type Scope int

// The scopes. The zero value is none of them: a route without a scope is a
// mistake that Handler refuses at start.
const (
	_        Scope = iota
	Public         // nothing: what it answers is the same for everybody
	Open           // nothing, and a cookie says who asks: to sign in, and to ask how. Other sites' pages may not send it
	Key            // an API key, as Authorization: Bearer or X-API-Key, or the cookie of who has signed in
	SignedIn       // that cookie and no key: for what is about the sign-in itself, whatever it may do
	Socket         // an API key, also as a WebSocket's subprotocol, for what a page's script opens
	Admin          // an API key of a principal with auth.ScopeDaemon, for what tells of everybody's sessions
)

func (s Scope) String() string {
	return [...]string{"none", "public", "open", "key", "signed in", "socket", "admin"}[s]
}

// Route is one endpoint. A surface's routes are its whole contract: reading
// the table is auditing the surface.
type Route struct {
	Pattern string // of net/http: "POST /v1/sessions/{id}/exec"
	Scope   Scope
	Handler http.Handler
	Class   Class // Short if nothing is said
	Listens bool  // it waits for what happens to one's own, or asks how it goes: no line in the audit log
	Acts    bool  // it changes something or goes into a sandbox whatever the method: not for keys that only read

	// Turn is for what lists: it waits for no program, and works the longer the more there
	// is. Owners take turns at it; see BeginTurn.
	Turn bool

	// Ticket, which may be nil, finds a credential that opens this route alone
	// and is taken instead of a key. It returns the principal that may use what the
	// ticket is for, and whether the request shows a ticket at all. A route with it
	// takes no cookie: what it leads to is not the daemon's.
	Ticket func(r *http.Request) (p auth.Principal, shown bool, err error)

	// Resolve, which may be nil, turns what the path calls a thing into its id, with
	// SetPathValue: once, before handlers and logs see it. The caller is known.
	Resolve func(r *http.Request) error

	// Foreign says that what the last wildcard of the pattern stands for is not the daemon's:
	// the handler reads it with rawpath.Of, and nobody cleans or redirects it. The pattern
	// names no method.
	Foreign bool

	// Reserved says, of scope Admin, what admins alone may do here, and what others can do
	// instead: "only admins make images". Nothing is that it tells of all owners' sessions.
	Reserved string

	// Tokens has the route take access tokens of the provider that signs users in, too.
	// It is the path of the description that tells clients of the provider, by RFC 9728.
	Tokens string
}

// Surface is one public API.
type Surface struct {
	Name   string
	Routes []Route

	Prefix  string  // of its paths, which may be empty; what no route matches there is answered in its dialect
	Dialect Dialect // nil is ErrorBody
	Cookie  *Cookie // of who has signed in; nil is SessionCookie

	// EitherKey takes a request with keys in both headers, if one of them is valid and the
	// other one is nobody else's: clients of some APIs have a token of another service in
	// one of them.
	EitherKey bool
}

// Options configures Handler. Every zero value is usable.
type Options struct {
	Log   *slog.Logger // silence
	Hosts Hosts        // which Host headers are ours; the zero value is loopback names only

	// Authenticator knows API keys; nil asks nobody for one, and every caller is
	// auth.Anonymous: only for a daemon on a loopback address.
	Authenticator auth.Authenticator

	Inside   *Inside  // whose requests are parts of others; nil is nobody's
	Tokens   Tokens   // knows access tokens; nil takes none
	Browsers Browsers // knows who has signed in; nil has no cookies
	HTTPS    bool     // clients come by TLS, as through a proxy that adds it

	Proxies Proxies  // who says for whom they ask; the zero value is nobody
	Origins []string // of other web sites whose pages may call the API, as https://app.example.org

	// Site returns the route of a host, in lower case and without its port,
	// that is a web site of its own beside the API. Nothing else is served
	// there, and its paths are taken as they come. nil is for hosts of no site.
	Site func(host string) *Route

	Quotas     auth.Quotas   // of callers, asked at each request; nil has no limits
	Concurrent Concurrencies // requests of all callers that may be under way at once

	Registry prometheus.Registerer // nil keeps no metrics
	Answers  *Answers              // counts what is answered; nil counts nothing
	Audit    *audit.Log            // of what clients do; nil keeps none
	Tracer   *tracing.Tracer       // nil traces nothing
}

// Handler serves the surfaces behind everything they share. It panics on a
// route without a scope and on two routes with one pattern: both are mistakes
// in the source, found by any test that builds it.
func Handler(o Options, surfaces ...Surface) http.Handler {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Quotas == nil {
		o.Quotas = auth.FixedQuotas{}
	}
	if o.Site == nil {
		o.Site = func(string) *Route { return nil }
	}
	h := &handler{
		log:     o.Log,
		hosts:   o.Hosts,
		origins: o.Origins,
		proxies: o.Proxies,
		site:    o.Site,
		keys:    o.Authenticator,
		signIns: o.Browsers,
		https:   o.HTTPS,
		rates:   newRates(o.Quotas),
		metrics: newMetrics(o.Registry),
		answers: o.Answers,
		tracer:  o.Tracer,
		tokens:  o.Tokens,
		under:   newUnderway(o.Concurrent, o.Quotas, o.Registry),
		work:    newWork(),
		refused: newRefusals(),
		audit:   o.Audit,
		mux:     http.NewServeMux(),
		inside:  o.Inside,
	}
	for _, s := range surfaces {
		for _, route := range s.Routes {
			if route.Scope < Public || route.Scope > Admin {
				panic("api: " + s.Name + ": route " + route.Pattern + " has no scope")
			}
			h.mux.Handle(route.Pattern, speak(s, h.guard(route)))
			if route.Foreign {
				h.foreign = append(h.foreign, strings.Split(route.Pattern, "/"))
			}
		}
		if s.Prefix != "" {
			h.prefixed = append(h.prefixed, s)
			h.mux.Handle(s.Prefix, speak(s, h.guard(h.unknownRoute())))
		}
	}
	// The longest prefix first: a surface may lie in another's paths.
	slices.SortFunc(h.prefixed, func(a, b Surface) int { return cmp.Compare(len(b.Prefix), len(a.Prefix)) })
	// An unknown path asks for a key too: without one, nobody learns which
	// paths exist.
	h.mux.Handle("/", h.guard(h.unknownRoute()))
	return h
}

func (h *handler) unknownRoute() Route {
	return Route{Scope: Key, Handler: http.HandlerFunc(h.unknown)}
}

// speak has a surface's errors written in its dialect, and its cookie read.
func speak(s Surface, next http.Handler) http.Handler {
	if s.Dialect == nil && s.Cookie == nil && !s.EitherKey {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req := From(r.Context())
		req.dialect, req.cookie, req.eitherKey = s.Dialect, s.Cookie, s.EitherKey
		next.ServeHTTP(w, r)
	})
}

type handler struct {
	log     *slog.Logger
	hosts   Hosts
	origins []string
	site    func(host string) *Route
	keys    auth.Authenticator
	signIns Browsers
	https   bool
	rates   *rates
	metrics *metrics
	answers *Answers
	tracer  *tracing.Tracer
	tokens  Tokens
	under   *underway
	work    *fairqueue.Queue
	refused *refusals
	audit   *audit.Log
	mux     *http.ServeMux
	inside  *Inside

	foreign  [][]string // the parts of patterns whose last wildcard is not ours
	prefixed []Surface  // with paths of their own, for what is refused before there is a route

	proxies   Proxies
	strangers audit.Sampler // of the lines in the log of requests without a key
}

// ServeHTTP is the way of every request: what is common first, then the route
// with its guard.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	req := &Request{
		ID: requestID(r), Host: r.Host, TLS: r.TLS != nil || h.https, Remote: h.proxies.remote(r), start: time.Now(), audit: h.audit, work: h.work, refusals: h.refused,
		method: clean(r.Method), keyless: len(r.Header["Authorization"])+len(r.Header["X-Api-Key"]) == 0,
	}
	h.partOf(r, req)
	rec := &recorder{ResponseWriter: w, asked: r.Header}
	rec.leaving = func() { h.auditBegin(rec, r) }
	ctx := context.WithValue(r.Context(), requestKey{}, req)
	if !ofOperator(r) {
		ctx, req.span = h.tracer.Request(ctx, r.Header, isInside(ctx))
	}
	r = r.WithContext(ctx)
	header := w.Header()
	header.Set("X-Request-Id", req.ID)
	if !protection.Off(protection.NoSniff) {
		header.Set("X-Content-Type-Options", "nosniff")
	}
	header.Set("Cache-Control", "no-store")
	defer func() { h.finish(rec, r, recover()) }()
	rec.begin(r)

	req.dialect = h.dialectOf(r.URL.Path)
	if err := checkHeaders(r); err != nil {
		WriteError(rec, r, err)
		return
	}
	if route := h.site(hostname(r.Host)); route != nil {
		req.dialect = nil // of our paths, which the site's are not
		r.Pattern = route.Pattern
		h.guard(*route).ServeHTTP(rec, r)
		return
	}
	if err := h.hosts.check(r); err != nil {
		WriteError(rec, r, err)
		return
	}
	if h.fromOrigin(rec, r) {
		return
	}
	if own, ok := h.beforeForeign(r); ok {
		req.path, r.URL = r.URL.Path, own
		h.mux.ServeHTTP(rec, r)
		return
	}
	// The mux would redirect these. No client of ours sends them, and a proxy
	// in front may have judged a different path than the one it redirects to.
	if p := r.URL.Path; p == "" || p[0] != '/' || (p != "/" && path.Clean(p) != strings.TrimSuffix(p, "/") && !protection.Off(protection.CleanPaths)) {
		WriteError(rec, r, errNoRoute(r.URL.Path))
		return
	}
	h.mux.ServeHTTP(rec, r)
}

// beforeForeign returns a request's URL without what of its path is not the daemon's, if a
// route leads there.
func (h *handler) beforeForeign(r *http.Request) (own *url.URL, ok bool) {
	path := rawpath.Of(r).Path
	for _, pattern := range h.foreign {
		parts := strings.SplitN(path, "/", len(pattern))
		if len(parts) < len(pattern) || !leads(pattern[:len(pattern)-1], parts) {
			continue
		}
		return &url.URL{Path: strings.Join(parts[:len(parts)-1], "/") + "/", RawQuery: r.URL.RawQuery}, true
	}
	return nil, false
}

// leads reports whether a path begins with what a pattern does. A path with escapes there
// takes the usual way.
func leads(pattern, path []string) bool {
	for i, part := range pattern {
		isWildcard := strings.HasPrefix(part, "{")
		if !isWildcard && path[i] != part || isWildcard && (strings.Trim(path[i], ".") == "" || strings.ContainsAny(path[i], "%")) {
			return false
		}
	}
	return true
}

// dialectOf is the dialect of the surface that a path belongs to.
func (h *handler) dialectOf(path string) Dialect {
	for _, s := range h.prefixed {
		if strings.HasPrefix(path, s.Prefix) {
			return s.Dialect
		}
	}
	return nil
}

// guard puts the checks of a route in front of its handler.
func (h *handler) guard(route Route) http.Handler {
	if route.Scope == Public {
		return route.Handler
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		From(r.Context()).audited = audited(r, route)
		if err := h.admit(r, route); err != nil {
			if h.tokens != nil && route.Tokens != "" && errdefs.Is(err, errdefs.Unauthenticated) {
				w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+Base(r)+route.Tokens+`"`)
			}
			WriteError(w, r, err)
			return
		}
		if route.Resolve != nil {
			if err := route.Resolve(r); err != nil {
				WriteError(w, r, err)
				return
			}
		}
		h.serveWatched(w, r, route)
	})
}

// unknown answers what no route matches: 405 where another method would.
func (h *handler) unknown(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		probe := &http.Request{Method: method, URL: r.URL, Host: r.Host}
		if _, pattern := h.mux.Handler(probe); pattern != r.Pattern {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		WriteError(w, r, errNoRoute(r.URL.Path))
		return
	}
	for _, method := range allowed {
		w.Header().Add("Allow", method)
	}
	WriteError(w, r, MethodNotAllowed(r.Method))
}

func errNoRoute(path string) error {
	if strings.Contains(path, "//") {
		return errdefs.New(errdefs.NotFound, "there is no such path: a part of it is empty, as where a variable is not set; GET /docs lists them all")
	}
	return errdefs.New(errdefs.NotFound, "there is no such path; GET /docs lists them all")
}
