package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/protection"
)

// Browsers knows who has signed in with a browser.
type Browsers interface {
	// Authenticate returns in whose name a request with a cookie's token is made, and
	// the id of the sign-in.
	Authenticate(ctx context.Context, token string) (p auth.Principal, id string, err error)

	// CSRF is what has to come beside a cookie with token.
	CSRF(token string) string

	// Watch returns a context that ends with ctx, or at once with the sign-in of an
	// id: its cause is auth.ErrEnded then. The caller calls stop when it is done.
	Watch(ctx context.Context, id string) (watched context.Context, stop func())
}

// Cookie is how a surface calls what a browser shows who has signed in.
type Cookie struct {
	Name   string // of the cookie; over TLS it is behind hostPrefix if Path is "/"
	Path   string // for which browsers send it
	Header string // of the token that comes beside it
	Token  string // the cookie in which scripts find the token; "" if they are told otherwise
}

// SessionCookie is that of the surfaces that name no other.
var SessionCookie = Cookie{Name: "sandkasten_session", Path: "/", Header: "X-CSRF-Token"}

// hostPrefix begins the names of cookies that browsers take from the host itself
// only, and not from one beside it.
const hostPrefix = "__Host-"

// OrchestratorCookie is that of the sandbox orchestrator's API. Browsers do not send it
// into sandboxes, where programs may have cookies of that name.
var OrchestratorCookie = Cookie{Name: "sessionid", Path: "/api/", Header: "X-CSRFToken", Token: "csrftoken"}

func cookieOf(req *Request) Cookie {
	if req.cookie != nil {
		return *req.cookie
	}
	return SessionCookie
}

// nameFor is the cookie's name in a request.
func (c Cookie) nameFor(req *Request) string {
	if req.TLS && c.Path == "/" {
		return hostPrefix + c.Name
	}
	return c.Name
}

// IsSessionCookie reports whether a cookie of name opens the API, so that no program in
// a sandbox is to see or to set it.
func IsSessionCookie(name string) bool {
	return name == SessionCookie.Name || name == hostPrefix+SessionCookie.Name
}

// IsTokenCookie reports whether a cookie is the one in which scripts find the token of a sign-in. Browsers
// send it to previews that are served below a path of the API. Programs in sandboxes have
// cookies of that name, too, which are theirs: ours is known by its form.
func IsTokenCookie(name, value string) bool {
	if name != OrchestratorCookie.Token {
		return false
	}
	token, err := base64.RawURLEncoding.DecodeString(strings.Trim(value, `"`))
	return err == nil && len(token) == sha256.Size
}

// Cookies are what a browser has to keep of a sign-in, for the surface of the request
// that ctx belongs to. No page of another site has the browser send the first, not
// even by a link: some GETs act, and the daemon's pages are the same for everybody, so
// nobody misses it. An empty token has it forgotten.
func Cookies(ctx context.Context, token, csrf string, life time.Duration) []*http.Cookie {
	req := From(ctx)
	form := cookieOf(req)
	age := max(1, int(life/time.Second))
	if token == "" {
		age = -1
	}
	list := []*http.Cookie{{
		Name: form.nameFor(req), Value: token, Path: form.Path, MaxAge: age, HttpOnly: true, Secure: req.TLS, SameSite: http.SameSiteStrictMode,
	}}
	if protection.Off(protection.CookieFlags) {
		list[0].HttpOnly, list[0].SameSite = false, http.SameSiteNoneMode
	}
	if form.Token != "" {
		list = append(list, &http.Cookie{Name: form.Token, Value: csrf, Path: "/", MaxAge: age, Secure: req.TLS, SameSite: http.SameSiteStrictMode}) //nolint:gosec // scripts read it
	}
	return list
}

// shownCookie returns the token in the one cookie of a request that shows no key. Routes
// into sandboxes take none, nor does a request with two, of which one is somebody
// else's.
func (h *handler) shownCookie(r *http.Request, route Route) (token string, ok bool) {
	req := From(r.Context())
	if h.signIns == nil || !req.keyless || route.Ticket != nil && !protection.Off(protection.CookieRoutes) {
		return "", false
	}
	if route.Scope == Socket && len(socketKeys(r)) > 0 {
		return "", false
	}
	shown := r.CookiesNamed(cookieOf(req).nameFor(req))
	if len(shown) != 1 || shown[0].Value == "" || len(shown[0].Value) > maxKey {
		return "", false
	}
	return shown[0].Value, true
}

// HasSignedIn has the request of ctx be one of who has just signed in with it.
func HasSignedIn(ctx context.Context, p auth.Principal, csrf string) {
	req := From(ctx)
	req.Principal, req.CSRF = p, csrf
}

var errNoToken = errors.New("the request has a cookie and no token")

// authenticateCookie finds out in whose name a request with a cookie is made. One that
// acts has to show that a page of ours sends it.
func (h *handler) authenticateCookie(r *http.Request, route Route, token string) (auth.Principal, error) {
	req := From(r.Context())
	p, id, err := h.signIns.Authenticate(r.Context(), token)
	if err != nil {
		return auth.Principal{}, errUnauthenticated(err)
	}
	csrf := h.signIns.CSRF(token)
	if !protection.Off(protection.CSRFToken) {
		if err := checkToken(r, route, cookieOf(req), csrf); err != nil {
			return auth.Principal{}, err
		}
	}
	req.SignIn, req.CSRF = id, csrf
	return p, nil
}

// checkToken refuses a request with a cookie that acts, if nothing shows that a page
// of ours has sent it: the token, or, where scripts can send none, the browser itself.
func checkToken(r *http.Request, route Route, form Cookie, csrf string) error {
	get := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case route.Scope == Open:
		return nil // it does nothing in the name of who has signed in
	case get && !route.Acts && route.Scope != Socket && r.Header.Get("Upgrade") == "":
		return nil
	case get && fromOwnPage(r):
		return nil
	}
	if sent := r.Header[http.CanonicalHeaderKey(form.Header)]; len(sent) == 1 && subtle.ConstantTimeCompare([]byte(sent[0]), []byte(csrf)) == 1 {
		return nil
	}
	return errdefs.Wrap(errNoToken, errdefs.PermissionDenied, "with a cookie this takes its token in the header %s: GET /v1/auth/session tells it", form.Header)
}
