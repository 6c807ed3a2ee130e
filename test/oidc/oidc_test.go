// Package oidc signs users in with a real OpenID Connect provider, which the tests
// start. It is a module of its own for what the provider needs.
package oidc

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"

	"github.com/sandkasten/sandkasten/internal/accounts"
	"github.com/sandkasten/sandkasten/internal/accounts/browser"
	"github.com/sandkasten/sandkasten/internal/accounts/oidc"
	"github.com/sandkasten/sandkasten/internal/api"
	v1 "github.com/sandkasten/sandkasten/internal/api/v1"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/store"
)

// world is a daemon's sign-in and a provider.
type world struct {
	t        *testing.T
	daemon   *httptest.Server
	provider *httptest.Server
	accounts *accounts.Accounts
	browser  *http.Client
}

func start(t *testing.T, set func(*oidc.Options)) *world {
	t.Helper()
	w := &world{t: t, daemon: httptest.NewUnstartedServer(nil), provider: httptest.NewUnstartedServer(nil)}
	t.Cleanup(w.daemon.Close)
	t.Cleanup(w.provider.Close)
	w.provider.Start()
	db, err := store.Open(context.WithoutCancel(t.Context()), filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	if w.accounts, err = accounts.New(t.Context(), accounts.Options{Store: db, RemoveOwned: func(context.Context, string) error { return nil }}); err != nil {
		t.Fatal(err)
	}
	keys, err := auth.NewKeys(auth.Key{ID: "api_key", Owner: auth.Admin, Hash: auth.HashKey("the-daemons-own-key")})
	if err != nil {
		t.Fatal(err)
	}
	known := w.accounts.Authenticator(keys)
	signIns, err := browser.New(t.Context(), browser.Options{Store: db, Accounts: w.accounts, Keys: known, Idle: time.Hour, Most: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	w.accounts.SetSignIns(signIns)
	o := oidc.Options{
		Issuer: w.provider.URL + "/", ClientID: "sandkasten", ClientSecret: "secret-of-the-client", Scopes: []string{"profile", "email"},
		NameClaim: "preferred_username", GroupsClaim: "groups", Store: db, Accounts: w.accounts,
	}
	set(&o)
	w.daemon.Config.Handler = api.Handler(api.Options{Authenticator: known, Browsers: signIns}, v1.New(v1.Options{
		Manager: session.New(session.Options{}), Accounts: w.accounts, SignIns: signIns, OIDC: oidc.New(o),
	}))
	w.daemon.Start()
	clients := map[string]*storage.Client{"sandkasten": storage.WebClient("sandkasten", "secret-of-the-client", w.daemon.URL+"/v1/auth/oidc/callback")}
	w.provider.Config.Handler = exampleop.SetupServer(o.Issuer, storage.NewStorageWithClients(storage.NewUserStore(o.Issuer), clients), nil, false)
	w.browser = newBrowser(t)
	return w
}

// newBrowser keeps cookies and follows no redirect by itself to the daemon's pages.
func newBrowser(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Jar: jar, Timeout: 30 * time.Second, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if r.URL.Path == "/" {
			return http.ErrUseLastResponse
		}
		return nil
	}}
}

// visit is a GET, or the POST of a form.
func visit(t *testing.T, client *http.Client, address string, form url.Values) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if form != nil {
		r, err = http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(form.Encode()))
	}
	if err != nil {
		t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

// signIn goes to the provider and back, and returns the last answer.
func (w *world) signIn(name string) (status int, text string) {
	w.t.Helper()
	page, text := visit(w.t, w.browser, w.daemon.URL+"/v1/auth/oidc/start", nil)
	id := page.Request.URL.Query().Get("authRequestID")
	if id == "" {
		return page.StatusCode, text
	}
	resp, text := visit(w.t, w.browser, w.provider.URL+"/login/username", url.Values{"username": {name}, "password": {"verysecure"}, "id": {id}})
	return resp.StatusCode, text
}

// me is whom the daemon takes the browser for; "" is nobody.
func (w *world) me() string {
	w.t.Helper()
	_, text := visit(w.t, w.browser, w.daemon.URL+"/v1/auth/session", nil)
	var in struct {
		Me struct{ Owner string }
	}
	if err := json.Unmarshal([]byte(text), &in); err != nil {
		w.t.Fatalf("%v in %s", err, text)
	}
	return in.Me.Owner
}

func TestSignInWithAProvider(t *testing.T) {
	disabled := accounts.Disabled
	tests := []struct {
		name   string
		set    func(*oidc.Options)
		users  []accounts.UserRequest
		wanted string // who has signed in
		says   string // if nobody has
	}{
		{name: "a new user", set: func(o *oidc.Options) { o.CreateUsers = true }, wanted: "test-user2"},
		{name: "of an allowed domain", set: func(o *oidc.Options) { o.CreateUsers, o.AllowedDomains = true, []string{"zitadel.ch"} }, wanted: "test-user2"},
		{name: "of another domain", set: func(o *oidc.Options) { o.CreateUsers, o.AllowedDomains = true, []string{"example.org"} }, says: "oidc.allowed_domains"},
		{name: "of no group", set: func(o *oidc.Options) { o.CreateUsers, o.AllowedGroups = true, []string{"staff"} }, says: "oidc.allowed_groups"},
		{name: "nobody is made", set: func(*oidc.Options) {}, says: "oidc.create_users"},
		{name: "a name that is taken", set: func(o *oidc.Options) { o.CreateUsers = true }, users: []accounts.UserRequest{{Name: "test-user2"}}, says: "is there already"},
		{
			name: "an address that is not linked", set: func(o *oidc.Options) { o.CreateUsers = true },
			users: []accounts.UserRequest{{Name: "dora", Email: "test-user2@zitadel.ch"}}, wanted: "test-user2",
		},
		{
			name: "a linked address", set: func(o *oidc.Options) { o.LinkUsers = true },
			users: []accounts.UserRequest{{Name: "dora", Email: "test-user2@zitadel.ch"}}, wanted: "dora",
		},
		{name: "another client's secret", set: func(o *oidc.Options) { o.CreateUsers, o.ClientSecret = true, "wrong" }, says: "is not valid"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := start(t, tt.set)
			for _, req := range tt.users {
				if _, err := w.accounts.CreateUser(t.Context(), auth.System("test"), req); err != nil {
					t.Fatal(err)
				}
			}
			status, text := w.signIn("test-user2")
			if tt.says != "" && (status != http.StatusForbidden || !strings.Contains(text, tt.says)) || tt.says == "" && status != http.StatusSeeOther {
				t.Errorf("the answer is %d %s", status, text)
			}
			if got := w.me(); got != tt.wanted {
				t.Errorf("%q has signed in, want %q", got, tt.wanted)
			}
			if tt.wanted == "" {
				return
			}
			w.browser = newBrowser(t)
			if status, text := w.signIn("test-user2"); status != http.StatusSeeOther || w.me() != tt.wanted {
				t.Errorf("again: %d %s", status, text)
			}
			if _, err := w.accounts.UpdateUser(t.Context(), auth.System("test"), tt.wanted, accounts.UserUpdate{State: &disabled}); err != nil {
				t.Fatal(err)
			}
			if got := w.me(); got != "" {
				t.Errorf("disabled, and still %s", got)
			}
			w.browser = newBrowser(t)
			if status, text := w.signIn("test-user2"); status != http.StatusForbidden || !strings.Contains(text, "disabled") {
				t.Errorf("disabled: %d %s", status, text)
			}
		})
	}
}

// A code that another browser has got, or an old address, signs nobody in.
func TestSignInIsBoundToTheBrowser(t *testing.T) {
	w := start(t, func(o *oidc.Options) { o.CreateUsers = true })
	page, _ := visit(t, w.browser, w.daemon.URL+"/v1/auth/oidc/start", nil)
	id := page.Request.URL.Query().Get("authRequestID")
	var back string
	w.browser.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if strings.HasSuffix(r.URL.Path, "/callback") && strings.HasPrefix(r.URL.String(), w.daemon.URL) {
			back = r.URL.String()
			return http.ErrUseLastResponse
		}
		return nil
	}
	visit(t, w.browser, w.provider.URL+"/login/username", url.Values{"username": {"test-user2"}, "password": {"verysecure"}, "id": {id}})
	if back == "" {
		t.Fatal("the provider does not send the browser back")
	}
	thief := newBrowser(t)
	for name, address := range map[string]string{"the address": back, "another state": strings.Replace(back, "state=", "state=x", 1)} {
		if resp, text := visit(t, thief, address, nil); resp.StatusCode != http.StatusForbidden || !strings.Contains(text, "begin again") {
			t.Errorf("%s in another browser: %d %s", name, resp.StatusCode, text)
		}
	}
	w.browser.CheckRedirect = thief.CheckRedirect
	if resp, text := visit(t, w.browser, back, nil); resp.StatusCode != http.StatusSeeOther {
		t.Errorf("in its own browser: %d %s", resp.StatusCode, text)
	}
	if resp, _ := visit(t, w.browser, back, nil); resp.StatusCode != http.StatusForbidden {
		t.Errorf("once more: %d", resp.StatusCode)
	}
}

// The daemon is there without its provider, and says so to who signs in.
func TestProviderIsDown(t *testing.T) {
	w := start(t, func(o *oidc.Options) { o.CreateUsers = true })
	handler := w.provider.Config.Handler
	w.provider.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	if status, text := w.signIn("test-user2"); status != http.StatusServiceUnavailable || !strings.Contains(text, "does not answer") {
		t.Errorf("down: %d %s", status, text)
	}
	w.provider.Config.Handler = handler
	if status, text := w.signIn("test-user2"); status != http.StatusSeeOther {
		t.Errorf("up again: %d %s", status, text)
	}
}
