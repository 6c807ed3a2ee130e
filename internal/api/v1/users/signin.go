package users

import (
	"context"
	"errors"
	"net/http"

	"github.com/sandkasten/sandkasten/internal/accounts/browser"
	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/v1/contract"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// SignInRequest is what somebody signs in with.
type SignInRequest struct {
	Name     string `json:"name,omitempty" maxLength:"254" doc:"The user's name, or an e-mail address that only one user has." example:"alice"`
	Password string `json:"password,omitempty" maxLength:"1024" doc:"The user's password. Only with name." example:"correct horse battery"`
	APIKey   string `json:"api_key,omitempty" maxLength:"512" doc:"An API key instead of a name and a password. The sign-in may what the key may, and ends with it." example:"sk_6f2t3zq2"`
}

// SignedIn is who has signed in, and how to.
type SignedIn struct {
	SignedIn  bool     `json:"signed_in" doc:"The request has the cookie of a sign-in that has not ended."`
	Me        *Me      `json:"me,omitempty" doc:"Who has signed in."`
	CSRFToken string   `json:"csrf_token,omitempty" doc:"What requests with the cookie send as X-CSRF-Token, but for GET and HEAD." example:"4vJ9Bq3mYt1o"`
	Ways      []string `json:"ways" nullable:"false" doc:"How to sign in: password, api_key, and oidc (GET /v1/auth/oidc/start in the browser) if the daemon has a provider." example:"[\"password\"]"`
}

type (
	// SignInInput is that of SignIn.
	SignInInput struct{ Body SignInRequest }
	// SignOutInput is that of SignOut.
	SignOutInput struct {
		Everywhere bool `query:"everywhere" doc:"End all sign-ins of the same user, or key."`
	}
	// SignInOutput is that of who has signed in.
	SignInOutput struct {
		Cookies []*http.Cookie `header:"Set-Cookie"`
		Body    SignedIn
	}
	// SignOutOutput is that of who has signed out.
	SignOutOutput struct {
		Cookies []*http.Cookie `header:"Set-Cookie"`
		Body    contract.OK
	}
)

// SignIn signs a browser in.
func (h *Handlers) SignIn(ctx context.Context, in *SignInInput) (*SignInOutput, error) {
	if h.SignIns == nil {
		return nil, errNoSignIn()
	}
	begun, err := h.signIn(ctx, in.Body)
	if err != nil {
		if wait, ok := errors.AsType[*browser.Throttled](err); ok {
			api.From(ctx).RetryAfter = wait.Wait
		}
		return nil, err
	}
	return h.Begun(ctx, begun)
}

// Begun is the answer to who has just signed in.
func (h *Handlers) Begun(ctx context.Context, begun browser.Begun) (*SignInOutput, error) {
	csrf := browser.CSRF(begun.Token)
	api.HasSignedIn(ctx, begun.Principal, csrf)
	out, err := h.Session(ctx, nil)
	if err != nil {
		return nil, err
	}
	out.Cookies = api.Cookies(ctx, begun.Token, csrf, begun.Life)
	return out, nil
}

func (h *Handlers) signIn(ctx context.Context, req SignInRequest) (browser.Begun, error) {
	remote := api.From(ctx).Remote
	switch {
	case req.APIKey != "" && (req.Name != "" || req.Password != ""):
		return browser.Begun{}, errdefs.Invalid("api_key", "must come without name and password")
	case req.APIKey != "":
		return h.SignIns.Key(ctx, req.APIKey, remote)
	case req.Name == "":
		return browser.Begun{}, errdefs.Invalid("name", "must be there with password, or api_key instead of both")
	}
	if known, ok := h.SignIns.UserOf(req.Name); ok {
		api.Made(ctx, "user", known.Name) // another name may be a password
	}
	return h.SignIns.Password(ctx, req.Name, req.Password, remote)
}

// Session says who has signed in.
func (h *Handlers) Session(ctx context.Context, _ *struct{}) (*SignInOutput, error) {
	if h.SignIns == nil {
		return nil, errNoSignIn()
	}
	out := &SignInOutput{Body: SignedIn{Ways: []string{"password", "api_key"}}}
	if h.OIDC != nil {
		out.Body.Ways = append(out.Body.Ways, "oidc")
	}
	if token := api.From(ctx).CSRF; token != "" {
		me, err := h.Me(ctx, nil)
		if err != nil {
			return nil, err
		}
		out.Body.SignedIn, out.Body.CSRFToken, out.Body.Me = true, token, &me.Body
	}
	return out, nil
}

// SignOut ends a sign-in.
func (h *Handlers) SignOut(ctx context.Context, in *SignOutInput) (*SignOutOutput, error) {
	if h.SignIns == nil {
		return nil, errNoSignIn()
	}
	if err := h.SignIns.SignOut(ctx, api.From(ctx).SignIn, in.Everywhere); err != nil {
		return nil, err
	}
	return &SignOutOutput{Cookies: api.Cookies(ctx, "", "", 0), Body: contract.OK{OK: true}}, nil
}

func errNoSignIn() error {
	return errdefs.New(errdefs.Unimplemented, "nobody signs in to this daemon: send an API key")
}
