package preview

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/rawpath"
)

// Where a request may show a token. None of the three reaches a sandbox.
const (
	tokenHeader = "X-Preview-Token"
	tokenParam  = "preview_token"
	tokenCookie = "sandkasten_preview"
)

// tokenPrefix lets people and secret scanners recognise a token.
const tokenPrefix = "skp_"

var tokenEncoding = base64.RawURLEncoding.Strict()

// maxCredential bounds the id of the credential in a token, in bytes.
const maxCredential = 128

// Issue returns a token that opens one port of one session, and nothing else of the API,
// until it expires or the session ends, or the credential of by, which makes it. ttl 0 is
// DefaultTTL.
func (p *Previews) Issue(by auth.Principal, t Target, ttl time.Duration) (token string, expires time.Time, err error) {
	if ttl == 0 {
		ttl = min(DefaultTTL, p.opts.MaxTTL)
	}
	if ttl < time.Second || ttl > p.opts.MaxTTL {
		return "", time.Time{}, errdefs.Invalid("ttl_seconds", "must be between 1 and %d", int64(p.opts.MaxTTL/time.Second))
	}
	expires = time.Now().Add(ttl).UTC().Truncate(time.Second)
	hash, stands := p.credential(by.ID)
	if !stands || len(by.ID) > maxCredential {
		return "", time.Time{}, errdefs.New(errdefs.PermissionDenied, "a preview token ends with the key or sign-in that makes it: use one of those")
	}
	return p.sign(t, expires, by.ID, hash), expires, nil
}

// credential returns the hash of the credential of an id, and whether it opens anything.
func (p *Previews) credential(id string) (hash auth.Hash, stands bool) {
	if p.opts.Credentials == nil || protection.Off(protection.PreviewEnd) {
		return hash, true
	}
	return p.opts.Credentials.HashOf(id)
}

// WithToken is a target's URL as a link that a browser can follow.
func WithToken(address, token string) string { return address + "?" + tokenParam + "=" + token }

// sign makes a token: when it ends, the id of the credential that it ends with, and a MAC
// over these, the target and the hash of the credential: an id of the configuration can
// be another key's later. The target itself comes with every request, in the address.
func (p *Previews) sign(t Target, expires time.Time, by string, hash auth.Hash) string {
	raw := append(binary.BigEndian.AppendUint64(nil, uint64(expires.Unix())), by...)
	mac := hmac.New(sha256.New, p.opts.Secret)
	mac.Write([]byte("sandkasten preview token 2\x00" + string(t.Session) + "\x00"))
	mac.Write(binary.BigEndian.AppendUint16(nil, uint16(t.Port)))
	mac.Write(hash[:])
	mac.Write(raw)
	return tokenPrefix + tokenEncoding.EncodeToString(mac.Sum(raw))
}

// expiry returns when a token ends, if it is one for t that has not. The time
// that it takes tells nothing of the right one.
func (p *Previews) expiry(t Target, token string) (expires time.Time, ok bool) {
	expires, ok = p.standing(t, token)
	return expires, ok && time.Now().Before(expires)
}

// standing reports whether a token is one for t whose credential has not ended.
func (p *Previews) standing(t Target, token string) (expires time.Time, ok bool) {
	const least = 8 + sha256.Size
	text, ok := strings.CutPrefix(token, tokenPrefix)
	if !ok || len(text) > tokenEncoding.EncodedLen(least+maxCredential) {
		return time.Time{}, false
	}
	raw, err := tokenEncoding.DecodeString(text)
	if err != nil || len(raw) < least {
		return time.Time{}, false
	}
	expires = time.Unix(int64(binary.BigEndian.Uint64(raw)), 0)
	by := string(raw[8 : len(raw)-sha256.Size])
	hash, stands := p.credential(by)
	same := hmac.Equal([]byte(p.sign(t, expires, by, hash)), []byte(token))
	return expires, same && stands
}

// lookAgain is how often it is asked whether the credential of a token still stands.
const lookAgain = 500 * time.Millisecond

// endWithTokens returns the context of a request, which ends with the credential of the
// token that it shows: what is open then does not outlive it. A request with a key shows
// none, and ends with the key.
func (p *Previews) endWithTokens(r *http.Request, t Target) (context.Context, func()) {
	shown := slices.Concat(r.Header[tokenHeader], r.URL.Query()[tokenParam])
	if len(shown) == 0 {
		for _, c := range r.CookiesNamed(tokenCookie) {
			if _, ok := p.expiry(t, c.Value); ok {
				shown = append(shown, c.Value)
			}
		}
	}
	if len(shown) == 0 {
		return r.Context(), func() {}
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	go func() {
		for tick := time.NewTicker(lookAgain); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
			}
			if !slices.ContainsFunc(shown, func(token string) bool { _, ok := p.standing(t, token); return ok }) {
				cancel(auth.ErrEnded)
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// Ticket is api.Route.Ticket for the target of a route.
func (p *Previews) Ticket(r *http.Request, t Target) (visitor auth.Principal, shown bool, err error) {
	given := slices.Concat(r.Header[tokenHeader], r.URL.Query()[tokenParam])
	for _, token := range given {
		if _, ok := p.expiry(t, token); !ok {
			return visitor, true, errdefs.New(errdefs.Unauthenticated, "the preview token has expired or is for another port; ask whoever gave it to you for a new one")
		}
	}
	shown = len(given) > 0
	// An old cookie is no reason to refuse a key. There may be several: a page
	// of a neighbouring origin can set one for this.
	for _, c := range r.CookiesNamed(tokenCookie) {
		_, ok := p.expiry(t, c.Value)
		shown = shown || ok
	}
	if !shown {
		return visitor, false, nil
	}
	visitor, err = p.visitor(r.Context(), t)
	return visitor, true, err
}

// keep answers a browser that follows a link with a token: it gets the token
// as a cookie and is sent to the same address without it, so that the token is
// in no history, no Referer, and nothing that the page's scripts see. It
// reports whether it has answered.
func (p *Previews) keep(w http.ResponseWriter, r *http.Request, t Target, prefix, path string) bool {
	token := r.URL.Query().Get(tokenParam)
	// No browser asks for a path with dot segments, and one would follow them out of the prefix.
	if token == "" || r.Method != http.MethodGet || !navigation(r) || rawpath.HasDots(path) {
		return false
	}
	expires, ok := p.expiry(t, token)
	if !ok { // the ticket was another
		return false
	}
	http.SetCookie(w, &http.Cookie{
		Name: tokenCookie, Value: token, Path: prefix + "/", MaxAge: max(1, int(time.Until(expires)/time.Second)),
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: p.scheme(api.From(r.Context())) == "https",
	})
	// One slash: with two, a browser would take the path for another host.
	location := prefix + "/" + strings.TrimLeft(path, `/\`)
	if query := withoutToken(r.URL.RawQuery); query != "" {
		location += "?" + query
	}
	w.Header().Set("Location", location)
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(http.StatusSeeOther)
	return true
}

// navigation reports whether a browser wants to show the answer. Those that do
// not say so, because they reach us without TLS, ask for HTML.
func navigation(r *http.Request) bool {
	if r.Header.Get("Upgrade") != "" {
		return false
	}
	if mode := r.Header.Get("Sec-Fetch-Mode"); mode != "" {
		return mode == "navigate"
	}
	return strings.Contains(r.Header.Get("Accept"), "text/html")
}

// withoutTokenIn is withoutToken of a query with its question mark, which goes with all that
// it had.
func withoutTokenIn(query string) string {
	rest := withoutToken(query[min(1, len(query)):])
	if rest == "" && query != "?" {
		return ""
	}
	return "?" + rest
}

// withoutToken takes our parameter out of a query and leaves the rest as it is.
func withoutToken(query string) string {
	var kept []string
	for part := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(part, "=")
		if plain, err := url.QueryUnescape(name); err == nil && plain == tokenParam {
			continue
		}
		kept = append(kept, part)
	}
	return strings.Join(kept, "&")
}

// allowed refuses the session of another owner, as if there were none.
func (p *Previews) allowed(ctx context.Context, t Target) error {
	_, err := p.opts.Manager.Sessions.Enter(ctx, api.Caller(ctx), t.Session)
	return err
}
