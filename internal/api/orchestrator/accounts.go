package orchestrator

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/accounts"
	"github.com/sandkasten/sandkasten/internal/accounts/browser"
	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// maxForm bounds the body of a form, and of JSON about accounts.
const maxForm = 64 << 10

// userView is who has signed in.
type userView struct {
	Username string `json:"username"`
	Email    string `json:"email"`
}

type userOutput struct{ Body userView }

// loginOutput is who has signed in, and what a browser is to keep.
type loginOutput struct {
	Cookies []*http.Cookie `header:"Set-Cookie"`
	Body    userView
}

func (s *surface) login(ctx context.Context, in *loginInput) (*loginOutput, error) {
	if known, ok := s.opts.SignIns.UserOf(in.Body.Username); ok {
		api.Made(ctx, "user", known.Name) // another name may be a password
	}
	begun, err := s.opts.SignIns.Password(ctx, in.Body.Username, in.Body.Password, api.From(ctx).Remote)
	if wait, ok := errors.AsType[*browser.Throttled](err); ok {
		api.From(ctx).RetryAfter = wait.Wait
	}
	if errdefs.Is(err, errdefs.Unauthenticated) {
		return nil, &statusError{http.StatusUnauthorized, "Invalid credentials", err}
	}
	if err != nil {
		return nil, err
	}
	csrf := browser.CSRF(begun.Token)
	api.HasSignedIn(ctx, begun.Principal, csrf)
	me, err := s.me(ctx, &none{})
	if err != nil {
		return nil, err
	}
	return &loginOutput{api.Cookies(ctx, begun.Token, csrf, begun.Life), me.Body}, nil
}

// cookiesOutput is what a browser is to keep.
type cookiesOutput struct {
	Cookies []*http.Cookie `header:"Set-Cookie"`
}

func (s *surface) logout(ctx context.Context, _ *none) (*cookiesOutput, error) {
	if err := s.opts.SignIns.SignOut(ctx, api.From(ctx).SignIn, false); err != nil {
		return nil, err
	}
	return &cookiesOutput{api.Cookies(ctx, "", "", 0)}, nil
}

func (s *surface) me(ctx context.Context, _ *none) (*userOutput, error) {
	me, err := s.opts.Accounts.Me(ctx, api.Caller(ctx))
	if err != nil {
		return nil, err
	}
	view := userView{Username: me.Owner}
	if me.User != nil {
		view.Email = me.User.Email
	}
	return &userOutput{view}, nil
}

// csrf sets the cookie of the token again. Who has not signed in needs none: to sign in
// takes the page's origin instead.
func (s *surface) csrf(ctx context.Context, _ *none) (*cookiesOutput, error) {
	out := &cookiesOutput{}
	if token := api.From(ctx).CSRF; token != "" {
		out.Cookies = api.Cookies(ctx, "", token, s.opts.SignInLife)[1:]
	}
	return out, nil
}

// settingsView is how users are made and sign in.
type settingsView struct {
	RequireApproval    bool     `json:"require_approval"`
	AllowAllUsers      bool     `json:"allow_all_users"`
	WaitlistEnabled    bool     `json:"waitlist_enabled"`
	SelfHosted         bool     `json:"self_hosted"`
	BillingEnabled     bool     `json:"billing_enabled"`
	SupportedProviders []string `json:"supported_providers" nullable:"false"`
}

type settingsOutput struct{ Body settingsView }

func (s *surface) settings(context.Context, *none) (*settingsOutput, error) {
	return &settingsOutput{settingsView{AllowAllUsers: s.opts.Registration, SelfHosted: true, SupportedProviders: []string{}}}, nil
}

// register makes a user for who asks, if the configuration lets everybody.
func (s *surface) register(ctx context.Context, in *registerInput) (*userOutput, error) {
	u, err := s.opts.Accounts.CreateUser(ctx, auth.System("registration"), accounts.UserRequest{
		Name: in.Body.Username, Email: in.Body.Email, Password: in.Body.Password, SelfMade: true,
	})
	if err != nil {
		return nil, asField(err, map[string]string{"name": "username", "email": "email", "password": "password"})
	}
	api.Made(ctx, "user", u.Name)
	return &userOutput{userView{u.Name, u.Email}}, nil
}

// registrationOpen refuses whatever a request to register says where nobody may.
func (s *surface) registrationOpen(context.Context, any) error {
	if !s.opts.Registration {
		return &statusError{status: http.StatusForbidden, text: "Registration is closed: ask an admin for a user, or set orchestrator.registration in the configuration"}
	}
	return nil
}

// asField is an error about a field, by its name here.
func asField(err error, names map[string]string) error {
	e, ok := errors.AsType[*errdefs.Error](err)
	if !ok || names[e.Field] == "" {
		return err
	}
	return fieldErrors{names[e.Field]: {strings.TrimPrefix(e.Message, e.Field+" ")}}
}

// keyView is a key without what opens anything.
type keyView struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	CreatedAt  stamp  `json:"created_at"`
	LastUsedAt stamp  `json:"last_used_at"`
	IsActive   bool   `json:"is_active"`
}

// newKeyView is a key with its text, which is shown once.
type newKeyView struct {
	keyView

	Key string `json:"key"`
}

func viewKey(k accounts.KeyInfo) keyView {
	active := k.RevokedAt.IsZero() && (k.ExpiresAt.IsZero() || time.Now().Before(k.ExpiresAt))
	return keyView{k.ID, k.Name, stamp(k.CreatedAt), stamp(k.LastUsed), active}
}

type newKeyOutput struct {
	Location string
	Body     newKeyView
}

func (s *surface) createKey(ctx context.Context, in *keyInput) (*newKeyOutput, error) {
	made, err := s.opts.Accounts.CreateKey(ctx, api.Caller(ctx), accounts.KeyRequest{Name: in.Body.Name})
	if err != nil {
		return nil, asField(err, map[string]string{"name": "name"})
	}
	api.Made(ctx, "key", made.ID)
	return &newKeyOutput{made.ID, newKeyView{viewKey(made.KeyInfo), made.Text}}, nil
}

type keysOutput struct{ Body []keyView }

// listKeys lists the caller's own keys, the newest first.
func (s *surface) listKeys(ctx context.Context, _ *none) (*keysOutput, error) {
	p := api.Caller(ctx)
	me, err := s.opts.Accounts.Me(ctx, p)
	if err != nil {
		return nil, err
	}
	out := &keysOutput{[]keyView{}}
	if me.User == nil { // an owner of the configuration, who has keys there
		return out, nil
	}
	all, err := s.opts.Accounts.Keys(ctx, p, me.User.Name)
	if err != nil {
		return nil, err
	}
	for _, k := range slices.Backward(all) {
		out.Body = append(out.Body, viewKey(k))
	}
	return out, nil
}

func (s *surface) revokeKey(ctx context.Context, in *ofKey) (*kit.Nothing, error) {
	err := s.opts.Accounts.RevokeKey(ctx, api.Caller(ctx), in.Key)
	if errdefs.Is(err, errdefs.NotFound) {
		return nil, &statusError{http.StatusNotFound, "API key not found", err}
	}
	return &kit.Nothing{}, err
}
