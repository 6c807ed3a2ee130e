package api

import (
	"context"
	"crypto/rand"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandkasten/sandkasten/internal/admission/fairqueue"
	"github.com/sandkasten/sandkasten/internal/audit"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/tracing"
)

// Request is what the layers around a handler know of one request.
type Request struct {
	ID   string // the client's X-Request-Id if that is sane, else ours
	Host string // as the client has called us
	TLS  bool   // it came over TLS to us, or to the proxy before us

	Remote string // its address, with its port where no trusted proxy stands between

	SignIn string // the id of the sign-in whose cookie it shows; "" with a key
	CSRF   string // what has to come beside that cookie

	RetryAfter time.Duration // to wait after an error of 429 or 503; 0 is a second

	Principal auth.Principal // of the key or ticket; zero where none was asked for, and before

	// Foreign says that the answer is that of a program in a sandbox: its
	// status tells nothing of the daemon.
	Foreign bool

	charge func(requests int) error // see Charge; nil without a rate

	work   *fairqueue.Queue // see BeginTurn; nil outside of a request
	inTurn bool

	refusals *refusals // nil outside of a request

	ends time.Time // of the access token that it shows; zero with another credential

	cookie *Cookie // of the surface; nil is SessionCookie
	open   bool    // the route is Open: anybody can make such requests

	dialect Dialect // of the surface that the request is for
	method  string
	keyless bool // it shows no key in a header

	eitherKey bool // see Surface

	otherOrigin bool // it comes from a page of one of Options.Origins

	audit   *audit.Log // of the daemon; may be nil
	audited bool       // it gets a line in the audit log, whatever the answer

	of atomic.Pointer[string] // see LooksIn

	outer *Request // that it is a part of, see Inside; nil for a client's own

	mu    sync.Mutex
	made  map[string]string // guarded by mu, see Made
	ended bool              // guarded by mu

	start time.Time
	path  string // for the log, where the URL has only what is the daemon's of it
	span  tracing.Span
	cause error // for the log, see Failed
}

type requestKey struct{}

// From returns the request that ctx belongs to. Outside a request it returns
// an empty one.
func From(ctx context.Context) *Request {
	if req, ok := ctx.Value(requestKey{}).(*Request); ok {
		return req
	}
	return &Request{}
}

// Base is the daemon's address as the client has called it, without a path.
func Base(r *http.Request) string {
	req := From(r.Context())
	if req.TLS {
		return "https://" + req.Host
	}
	return "http://" + req.Host
}

// Failed keeps why the request failed for its line in the log.
func Failed(ctx context.Context, cause error) { From(ctx).cause = cause }

// Made keeps the id of what the request has made for the audit log, as "session".
func Made(ctx context.Context, what, id string) {
	req := From(ctx)
	req.mu.Lock()
	defer req.mu.Unlock()
	if req.made == nil {
		req.made = make(map[string]string)
	}
	if before := req.made[what]; before != "" {
		id = before + " " + id // a fork makes several
	}
	req.made[what] = id
}

// LooksIn notes that the request looks into what another owner has, by the right to do so:
// the audit log has it whatever it is, and says whose that is.
func LooksIn(ctx context.Context, owner string) {
	From(ctx).of.Store(&owner) // of several at once
}

// requestID takes the client's id where it can do no harm in a log or a
// header, so that one id follows a request through several systems.
func requestID(r *http.Request) string {
	const sane = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	if id := r.Header.Get("X-Request-Id"); id != "" && len(id) <= 64 && strings.Trim(id, sane) == "" {
		return id
	}
	return rand.Text()
}
