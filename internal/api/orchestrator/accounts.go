package orchestrator

import (
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sandkasten/sandkasten/internal/accounts"
	"github.com/sandkasten/sandkasten/internal/accounts/browser"
	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// accountRoutes are the paths of users and keys, which are those of /v1 in this
// dialect.
func (s *surface) accountRoutes() {
	s.addRoute("POST", api.Route{Pattern: "/api/auth/login", Scope: api.Open, Class: api.Short}, s.login)
	s.addRoute("POST", api.Route{Pattern: "/api/auth/logout", Scope: api.SignedIn, Class: api.Short}, s.logout)
	s.addRoute("POST", api.Route{Pattern: "/api/auth/register", Scope: api.Open, Class: api.Short}, s.register)
	s.addRoute("GET", api.Route{Pattern: "/api/auth/me", Scope: api.Key, Class: api.Short}, s.me)
	s.addRoute("GET", api.Route{Pattern: "/api/auth/csrf", Scope: api.Open, Class: api.Short}, s.csrf)
	s.addRoute("GET", api.Route{Pattern: "/api/auth/settings", Scope: api.Open, Class: api.Short}, s.settings)

	s.addRoute("POST", api.Route{Pattern: "/api/api-keys", Scope: api.Key, Class: api.Short}, s.createKey)
	s.addRoute("GET", api.Route{Pattern: "/api/api-keys", Scope: api.Key, Class: api.Short, Turn: true}, s.listKeys)
	s.addRoute("DELETE", api.Route{Pattern: "/api/api-keys/{key}", Scope: api.Key, Class: api.Short}, s.revokeKey)
}

// maxForm bounds the body of a form, and of JSON about accounts.
const maxForm = 64 << 10

// userView is who has signed in.
type userView struct {
	Username string `json:"username"`
	Email    string `json:"email"`
}

func (s *surface) login(w http.ResponseWriter, r *http.Request) error {
	f, err := s.readForm(w, r)
	if err != nil {
		return err
	}
	username, password := f.filled("username"), f.filled("password")
	if err := f.errors.orNil(); err != nil {
		return err
	}
	ctx := r.Context()
	if known, ok := s.opts.SignIns.UserOf(username); ok {
		api.Made(ctx, "user", known.Name) // another name may be a password
	}
	begun, err := s.opts.SignIns.Password(ctx, username, password, api.From(ctx).Remote)
	if wait, ok := errors.AsType[*browser.Throttled](err); ok {
		api.From(ctx).RetryAfter = wait.Wait
	}
	if errdefs.Is(err, errdefs.Unauthenticated) {
		return &statusError{http.StatusUnauthorized, "Invalid credentials", err}
	}
	if err != nil {
		return err
	}
	csrf := browser.CSRF(begun.Token)
	api.HasSignedIn(ctx, begun.Principal, csrf)
	setCookies(w, api.Cookies(ctx, begun.Token, csrf, begun.Life))
	return s.me(w, r)
}

func setCookies(w http.ResponseWriter, list []*http.Cookie) {
	for _, c := range list {
		http.SetCookie(w, c)
	}
}

func (s *surface) logout(w http.ResponseWriter, r *http.Request) error {
	if err := s.opts.SignIns.SignOut(r.Context(), api.From(r.Context()).SignIn, false); err != nil {
		return err
	}
	setCookies(w, api.Cookies(r.Context(), "", "", 0))
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *surface) me(w http.ResponseWriter, r *http.Request) error {
	me, err := s.opts.Accounts.Me(r.Context(), api.Caller(r.Context()))
	if err != nil {
		return err
	}
	view := userView{Username: me.Owner}
	if me.User != nil {
		view.Email = me.User.Email
	}
	api.WriteJSON(w, r, http.StatusOK, view)
	return nil
}

// csrf sets the cookie of the token again. Who has not signed in needs none: to sign in
// takes the page's origin instead.
func (s *surface) csrf(w http.ResponseWriter, r *http.Request) error {
	if token := api.From(r.Context()).CSRF; token != "" {
		setCookies(w, api.Cookies(r.Context(), "", token, s.opts.SignInLife)[1:])
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
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

func (s *surface) settings(w http.ResponseWriter, r *http.Request) error {
	api.WriteJSON(w, r, http.StatusOK, settingsView{AllowAllUsers: s.opts.Registration, SelfHosted: true, SupportedProviders: []string{}})
	return nil
}

// register makes a user for who asks, if the configuration lets everybody.
func (s *surface) register(w http.ResponseWriter, r *http.Request) error {
	if !s.opts.Registration {
		return &statusError{status: http.StatusForbidden, text: "Registration is closed: ask an admin for a user, or set orchestrator.registration in the configuration"}
	}
	f, err := s.readForm(w, r)
	if err != nil {
		return err
	}
	req := accounts.UserRequest{Name: f.filled("username"), Email: f.text("email", false), Password: f.filled("password"), SelfMade: true}
	if n := utf8.RuneCountInString(req.Password); n > 0 && n < accounts.MinPassword {
		f.errors.add("password", "Ensure this field has at least %d characters.", accounts.MinPassword)
	}
	if err := f.errors.orNil(); err != nil {
		return err
	}
	u, err := s.opts.Accounts.CreateUser(r.Context(), auth.System("registration"), req)
	if err != nil {
		return asField(err, map[string]string{"name": "username", "email": "email", "password": "password"})
	}
	api.Made(r.Context(), "user", u.Name)
	api.WriteJSON(w, r, http.StatusCreated, userView{u.Name, u.Email})
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

func (s *surface) createKey(w http.ResponseWriter, r *http.Request) error {
	f, err := s.readForm(w, r)
	if err != nil {
		return err
	}
	name := f.filled("name")
	if utf8.RuneCountInString(name) > accounts.MaxKeyName {
		f.errors.add("name", "Ensure this field has no more than %d characters.", accounts.MaxKeyName)
	}
	if err := f.errors.orNil(); err != nil {
		return err
	}
	made, err := s.opts.Accounts.CreateKey(r.Context(), api.Caller(r.Context()), accounts.KeyRequest{Name: name})
	if err != nil {
		return asField(err, map[string]string{"name": "name"})
	}
	api.Made(r.Context(), "key", made.ID)
	w.Header().Set("Location", made.ID)
	api.WriteJSON(w, r, http.StatusCreated, newKeyView{viewKey(made.KeyInfo), made.Text})
	return nil
}

// listKeys lists the caller's own keys, the newest first.
func (s *surface) listKeys(w http.ResponseWriter, r *http.Request) error {
	p := api.Caller(r.Context())
	me, err := s.opts.Accounts.Me(r.Context(), p)
	if err != nil {
		return err
	}
	views := []keyView{}
	if me.User == nil { // an owner of the configuration, who has keys there
		api.WriteJSON(w, r, http.StatusOK, views)
		return nil
	}
	all, err := s.opts.Accounts.Keys(r.Context(), p, me.User.Name)
	if err != nil {
		return err
	}
	for _, k := range slices.Backward(all) {
		views = append(views, viewKey(k))
	}
	api.WriteJSON(w, r, http.StatusOK, views)
	return nil
}

func (s *surface) revokeKey(w http.ResponseWriter, r *http.Request) error {
	err := s.opts.Accounts.RevokeKey(r.Context(), api.Caller(r.Context()), r.PathValue("key"))
	if errdefs.Is(err, errdefs.NotFound) {
		return &statusError{http.StatusNotFound, "API key not found", err}
	}
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// readForm is readFields, which also takes what a form sends.
func (s *surface) readForm(w http.ResponseWriter, r *http.Request) (*fields, error) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" && kind != "multipart/form-data" {
		return s.readFields(w, r)
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if kind == "multipart/form-data" {
		err = r.ParseMultipartForm(maxForm)
	} else {
		err = r.ParseForm()
	}
	if err != nil {
		return nil, &statusError{http.StatusBadRequest, "the form cannot be read: " + err.Error(), err}
	}
	return fieldsOf(r.PostForm)
}

// fieldsOf are those of a form.
func fieldsOf(form url.Values) (*fields, error) {
	f := &fields{given: map[string]json.RawMessage{}, errors: fieldErrors{}}
	for name := range form {
		text, err := json.Marshal(form.Get(name))
		if err != nil {
			return nil, err
		}
		f.given[name] = text
	}
	return f, nil
}
