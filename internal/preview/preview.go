// Package preview lets HTTP clients, browsers among them, reach servers inside
// sandboxes: who may (a key, or a token for one port of one session), under
// which address, and with which headers in either direction. Every surface may
// use it. Raw connections to ports are session.Manager's, and shapes of
// requests a surface's.
//
// The server inside and its pages are hostile, and so are visitors. Nothing of
// ours goes in: no key, no token, no cookie. Nothing that comes out acts for
// the daemon's own origin, or for another preview's.
package preview

import (
	"cmp"
	"context"
	"crypto/rand"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
)

// Options configures Previews. Only Manager is required.
type Options struct {
	Manager *session.Manager
	Secret  []byte // signs tokens, at least 32 bytes; without one they end with the process

	// Credentials are those with which tokens are made, and end. Nil is a daemon that
	// asks for none: tokens end by their time alone.
	Credentials auth.Credentials

	// Domain gives every port of every session a host and so an origin of its
	// own: <port>-<session>.<Domain>. "" has previews below a path of the API,
	// whose pages browsers keep apart from it by a sandbox policy.
	Domain string

	// KeepHost has servers at a host of Domain get the Host that the client sent. Without
	// it they get localhost and their port: development servers refuse other names.
	KeepHost bool

	HTTPS  bool          // clients reach us through a proxy that adds TLS
	MaxTTL time.Duration // of a token: 24 hours

	AnswerTimeout time.Duration // for the header of a server's answer: 2 minutes
	IdleTimeout   time.Duration // for the next byte in either direction: 1 hour
}

// DefaultTTL is for how long a token opens a port if nobody says.
const DefaultTTL = time.Hour

// Target is a port of a session.
type Target struct {
	Session session.ID
	Port    int
}

var (
	sessionForm = regexp.MustCompile(`^[a-z2-7]{26}$`)
	portForm    = regexp.MustCompile(`^[1-9][0-9]{0,4}$`)
)

// ParseTarget reads a target from the parts of an address. What is no id is
// NotFound, as a session that does not exist would be.
func ParseTarget(id, port string) (Target, error) {
	if !sessionForm.MatchString(id) {
		return Target{}, session.ErrNoSession()
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || !portForm.MatchString(port) {
		return Target{}, errdefs.Invalid("port", "must be a number between 1 and 65535")
	}
	return Target{session.ID(id), int(n)}, nil
}

// Previews is safe for concurrent use.
type Previews struct {
	opts      Options
	transport *http.Transport
}

// New returns Previews.
func New(o Options) *Previews {
	if len(o.Secret) == 0 {
		o.Secret = []byte(rand.Text() + rand.Text())
	}
	o.MaxTTL = cmp.Or(o.MaxTTL, 24*time.Hour)
	o.AnswerTimeout = cmp.Or(o.AnswerTimeout, 2*time.Minute)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, time.Hour)
	p := &Previews{opts: o}
	p.transport = p.newTransport()
	return p
}

// MaxTTL is the longest life that a token may be given.
func (p *Previews) MaxTTL() time.Duration { return p.opts.MaxTTL }

// URL is the address of a target for the client whose request ctx belongs to:
// at a host of its own, or below prefix of the API ("/v1/sessions/...").
func (p *Previews) URL(ctx context.Context, t Target, prefix string) string {
	req := api.From(ctx)
	if p.opts.Domain == "" {
		return p.scheme(req) + "://" + req.Host + prefix + "/"
	}
	return p.scheme(req) + "://" + p.host(t) + portSuffix(req.Host) + "/"
}

func (p *Previews) scheme(req *api.Request) string {
	if p.opts.HTTPS || req.TLS {
		return "https"
	}
	return "http"
}

// visitor is who shows a token for a target: one who may use what its owner has.
func (p *Previews) visitor(ctx context.Context, t Target) (auth.Principal, error) {
	s, err := p.opts.Manager.Sessions.Get(ctx, auth.System("previews"), t.Session)
	return auth.Principal{Owner: s.Owner, ID: "preview", Quota: s.Owner}, err
}
