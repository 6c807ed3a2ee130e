package api

import (
	"cmp"
	"context"
	"encoding/base64"
	"net/http"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/protection"
)

// Caller is the principal in whose name the request is made that ctx belongs to.
// Outside a request it is one that owns nothing.
func Caller(ctx context.Context) auth.Principal { return From(ctx).Principal }

// admit decides on a request that needs a key or a ticket.
func (h *handler) admit(r *http.Request, route Route) error {
	if err := checkOrigin(r); err != nil {
		return err
	}
	p, err := h.authenticate(r, route)
	if route.Scope == Open {
		From(r.Context()).open = true
		if err != nil {
			return nil //nolint:nilerr // it takes nobody in particular
		}
	}
	if err != nil {
		return err
	}
	From(r.Context()).Principal = p
	if p == (auth.Principal{}) {
		return nil
	}
	req := From(r.Context())
	if req.outer == nil {
		if err := h.take(req, p, 1); err != nil {
			return err
		}
	}
	req.charge = func(requests int) error { return h.take(req, p, requests) }
	if p.ReadOnly && route.Scope != Open && route.Scope != SignedIn && (route.Acts || r.Method != http.MethodGet && r.Method != http.MethodHead) {
		return errdefs.New(errdefs.PermissionDenied, "this key may only read")
	}
	if route.Scope == Admin && !p.Has(auth.ScopeDaemon) {
		return errdefs.New(errdefs.PermissionDenied, "%s: use the daemon's own key, whose owner is %s, or that of a user who is an admin", cmp.Or(route.Reserved, "this tells of the sessions of all owners"), auth.Admin)
	}
	return nil
}

// authenticate finds out in whose name a request is made.
func (h *handler) authenticate(r *http.Request, route Route) (auth.Principal, error) {
	if route.Ticket != nil {
		if p, shown, err := route.Ticket(r); shown {
			return p, err
		}
	}
	if h.keys == nil || protection.Off(protection.Keys) {
		return auth.Anonymous(), nil
	}
	if token, ok := h.shownCookie(r, route); ok {
		return h.authenticateCookie(r, route, token)
	}
	switch route.Scope {
	case Open:
		return auth.Principal{}, nil
	case SignedIn:
		return auth.Principal{}, errUnauthenticated(nil)
	}
	if outer := From(r.Context()).outer; outer != nil {
		return outer.Principal, nil
	}
	most := maxKey
	if h.takesTokens(r, route) {
		most = maxToken
	}
	if From(r.Context()).eitherKey && len(r.Header["Authorization"]) == 1 && len(r.Header["X-Api-Key"]) == 1 {
		return h.authenticateEither(r)
	}
	key, err := credential(r, route.Scope, most)
	if err != nil {
		return auth.Principal{}, err
	}
	if most == maxToken && h.tokens.IsToken(key) {
		p, ends, err := h.tokens.Token(r.Context(), key)
		From(r.Context()).ends = ends
		return p, err
	}
	p, err := h.keys.Authenticate(r.Context(), key)
	if err != nil {
		return auth.Principal{}, errUnauthenticated(err)
	}
	return p, nil
}

// authenticateEither is for a request with keys in both headers: one valid key is enough,
// and two of different principals are none.
func (h *handler) authenticateEither(r *http.Request) (auth.Principal, error) {
	var found auth.Principal
	for _, key := range []string{bearer(r.Header.Get("Authorization")), r.Header.Get("X-Api-Key")} {
		if key == "" || len(key) > maxKey {
			continue
		}
		p, err := h.keys.Authenticate(r.Context(), key)
		if err != nil {
			continue
		}
		if found != (auth.Principal{}) && found != p {
			return auth.Principal{}, errUnauthenticated(nil)
		}
		found = p
	}
	if found == (auth.Principal{}) {
		return found, errUnauthenticated(nil)
	}
	return found, nil
}

// bearer is the key of an Authorization header, or "" if it has another form.
func bearer(header string) string {
	scheme, key, ok := strings.Cut(header, " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return key
}

// Tokens knows access tokens of a provider. An error is for the caller.
type Tokens interface {
	IsToken(credential string) bool
	// Token returns who acts by a token, and when it ends.
	Token(ctx context.Context, token string) (p auth.Principal, ends time.Time, err error)
}

// takesTokens reports whether an access token will do: for routes of tools, and for
// what these ask of the API inside.
func (h *handler) takesTokens(r *http.Request, route Route) bool {
	return h.tokens != nil && (route.Tokens != "" || isInside(r.Context()))
}

// maxKey bounds what is hashed for a caller whom we do not know yet, and maxToken
// what is checked where access tokens are taken.
const maxKey, maxToken = 512, 8 << 10

// credential returns the one API key that a request shows. None, more than
// one, or one in an unknown form is Unauthenticated.
func credential(r *http.Request, scope Scope, most int) (string, error) {
	authorization, apiKey := r.Header["Authorization"], r.Header["X-Api-Key"]
	var subprotocols []string
	if scope == Socket {
		subprotocols = socketKeys(r)
	}
	if len(authorization)+len(apiKey)+len(subprotocols) != 1 {
		return "", errUnauthenticated(nil)
	}
	var key string
	if len(apiKey) == 1 {
		key = apiKey[0]
	} else if len(subprotocols) == 1 {
		key = subprotocols[0]
	} else {
		key = bearer(authorization[0])
	}
	if key == "" || len(key) > most {
		return "", errUnauthenticated(nil)
	}
	return key, nil
}

// Subprotocol is what a WebSocket of ours speaks. A browser's script can send no
// header with one, so the key may stand beside it, as keyProtocol and the key in
// base64url: a browser wants one of those that it offers to be chosen, and the
// one with the key is not to be repeated.
const (
	Subprotocol = "sandkasten"
	keyProtocol = "sandkasten.key."
)

// socketKeys are the keys among the subprotocols that a request offers.
func socketKeys(r *http.Request) (keys []string) {
	for offered := range strings.SplitSeq(strings.Join(r.Header["Sec-Websocket-Protocol"], ","), ",") {
		encoded, ok := strings.CutPrefix(strings.TrimSpace(offered), keyProtocol)
		if !ok {
			continue
		}
		key, err := base64.RawURLEncoding.DecodeString(encoded)
		if err != nil {
			key = nil // no key is empty
		}
		keys = append(keys, string(key))
	}
	return keys
}

// HideSocketKeys takes the keys out of the subprotocols that a request offers,
// for one that goes on to somebody else.
func HideSocketKeys(header http.Header) {
	lines := header["Sec-Websocket-Protocol"]
	header.Del("Sec-WebSocket-Protocol")
	for _, line := range lines {
		var kept []string
		for offered := range strings.SplitSeq(line, ",") {
			if offered = strings.TrimSpace(offered); offered != "" && !strings.HasPrefix(offered, keyProtocol) {
				kept = append(kept, offered)
			}
		}
		if len(kept) > 0 {
			header.Add("Sec-WebSocket-Protocol", strings.Join(kept, ", "))
		}
	}
}

// errUnauthenticated is the one answer to every wrong key, so that it tells
// nothing about the right one.
func errUnauthenticated(cause error) error {
	return errdefs.Wrap(cause, errdefs.Unauthenticated, "a valid API key is needed: send Authorization: Bearer <key> or X-API-Key: <key>")
}
