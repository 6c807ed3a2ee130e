package users

import (
	"net/http"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/accounts/oidc"
	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// Where a browser begins a sign-in with a provider, and comes back to.
const (
	OIDCStart    = "/v1/auth/oidc/start"
	OIDCCallback = "/v1/auth/oidc/callback"
)

// tripCookie is what a browser keeps while it is at the provider. It has to come along
// when the provider sends the browser back, so that it is not as strict as the session's.
const tripCookie = "sandkasten_oidc"

func keepTrip(w http.ResponseWriter, r *http.Request, kept string) {
	age := int(oidc.Patience / time.Second)
	if kept == "" {
		age = -1
	}
	http.SetCookie(w, &http.Cookie{
		Name: tripCookie, Value: kept, Path: "/v1/auth/oidc/", MaxAge: age, HttpOnly: true, Secure: api.From(r.Context()).TLS, SameSite: http.SameSiteLaxMode,
	})
}

// backAddress is where the provider sends the browser: this daemon, as it was called.
func backAddress(r *http.Request) string {
	return api.Base(r) + OIDCCallback
}

// StartOIDC sends a browser to the provider.
func (h *Handlers) StartOIDC(w http.ResponseWriter, r *http.Request) {
	if h.OIDC == nil || h.SignIns == nil {
		api.WriteError(w, r, errNoProvider())
		return
	}
	address, kept, err := h.OIDC.Start(r.Context(), backAddress(r))
	if err != nil {
		api.WriteError(w, r, err)
		return
	}
	keepTrip(w, r, kept)
	http.Redirect(w, r, address, http.StatusSeeOther)
}

// FinishOIDC signs in a browser that comes back, and sends it on to the daemon's pages.
func (h *Handlers) FinishOIDC(w http.ResponseWriter, r *http.Request) {
	if h.OIDC == nil || h.SignIns == nil {
		api.WriteError(w, r, errNoProvider())
		return
	}
	keepTrip(w, r, "")
	ctx, query := r.Context(), r.URL.Query()
	if refused := query.Get("error"); refused != "" {
		api.WriteError(w, r, errdefs.New(errdefs.PermissionDenied, "the provider has not signed you in: %s", printable(refused)))
		return
	}
	var kept string
	if c, err := r.Cookie(tripCookie); err == nil {
		kept = c.Value
	}
	u, err := h.OIDC.Finish(ctx, kept, query.Get("state"), query.Get("code"), backAddress(r))
	if err != nil {
		api.WriteError(w, r, err)
		return
	}
	api.Made(ctx, "user", u.Name)
	begun, err := h.SignIns.OfUser(ctx, u)
	if err != nil {
		api.WriteError(w, r, err)
		return
	}
	out, err := h.Begun(ctx, begun)
	if err != nil {
		api.WriteError(w, r, err)
		return
	}
	for _, c := range out.Cookies {
		http.SetCookie(w, c)
	}
	http.Redirect(w, r, h.Home, http.StatusSeeOther)
}

// printable is a provider's code for an error: a word, whatever it sends.
func printable(code string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' {
			return c
		}
		return -1
	}, code[:min(len(code), 64)])
}

func errNoProvider() error {
	return errdefs.New(errdefs.Unimplemented, "no provider signs users in to this daemon: set oidc.issuer in its configuration")
}
