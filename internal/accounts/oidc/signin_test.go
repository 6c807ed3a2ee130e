package oidc_test

import (
	"net/url"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/sandkasten/sandkasten/internal/accounts"
	"github.com/sandkasten/sandkasten/internal/accounts/oidc"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// signIn goes to the provider and back, with an id_token that has claims over the usual ones.
func signIn(t *testing.T, i *issuer, p *oidc.Provider, with map[string]any) (accounts.User, error) {
	t.Helper()
	const back = "http://daemon.example/back"
	address, kept, err := p.Start(t.Context(), back)
	if err != nil {
		t.Fatal(err)
	}
	there, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	claims := map[string]any{"nonce": there.Query().Get("nonce")}
	for name, value := range with {
		claims[name] = value
	}
	token := i.token(jose.ES256, i.key, claims)
	i.granted.Store(&token)
	return p.Finish(t.Context(), kept, there.Query().Get("state"), "code", back)
}

// An id_token signs in whom it names, at this client and no other.
func TestIDTokens(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	for name, c := range map[string]struct {
		claims map[string]any
		taken  bool
	}{
		"of the client":                 {map[string]any{}, true},
		"that says so":                  {map[string]any{"azp": "sandkasten"}, true},
		"for several, made for us":      {map[string]any{"aud": []string{"sandkasten", "other"}, "azp": "sandkasten"}, true},
		"made for another client":       {map[string]any{"azp": "other"}, false},
		"for several, made for another": {map[string]any{"aud": []string{"sandkasten", "other"}, "azp": "other"}, false},
		"for several, made for whom":    {map[string]any{"aud": []string{"sandkasten", "other"}}, false},
		"whose azp is no text":          {map[string]any{"azp": 1}, false},
		"of nobody":                     {map[string]any{"sub": ""}, false},
		"with another nonce":            {map[string]any{"nonce": "other"}, false},
	} {
		p, users := newTokens(t, i, func(*oidc.Options) {})
		u, err := signIn(t, i, p, c.claims)
		if c.taken {
			if err != nil || u.Name != "wanda" {
				t.Errorf("an id_token %s: %+v, %v", name, u, err)
			}
			continue
		}
		all, listErr := users.Users(t.Context(), auth.System("test"))
		if !errdefs.Is(err, errdefs.PermissionDenied) || listErr != nil || len(all) > 0 {
			t.Errorf("an id_token %s: %+v, %v; the users are %+v, %v", name, u, err, all, listErr)
		}
	}
}

// Who gives themselves another's address does not get the other's sign-in, nor keep the other out.
func TestAddressOfAnother(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	p, users := newTokens(t, i, func(*oidc.Options) {})
	if _, err := users.CreateUser(t.Context(), auth.System("test"), accounts.UserRequest{Name: "eve", Email: "wanda@example.org"}); err != nil {
		t.Fatal(err)
	}
	u, err := signIn(t, i, p, map[string]any{"email": "wanda@example.org", "email_verified": true})
	if err != nil || u.Name != "wanda" || u.Email != "" {
		t.Errorf("%+v, %v", u, err)
	}
}

// A name that people take for the operator's is nobody's who chose it at the provider.
func TestReservedNameOfAProvider(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	p, _ := newTokens(t, i, func(*oidc.Options) {})
	if u, err := signIn(t, i, p, map[string]any{"preferred_username": "Root@example.org"}); !errdefs.Is(err, errdefs.PermissionDenied) {
		t.Errorf("%+v, %v", u, err)
	}
}
