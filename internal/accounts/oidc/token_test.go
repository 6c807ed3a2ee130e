package oidc_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/sandkasten/sandkasten/internal/accounts"
	"github.com/sandkasten/sandkasten/internal/accounts/oidc"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/store"
	"github.com/sandkasten/sandkasten/internal/store/storetest"
)

// issuer is a provider that signs what it is told to.
type issuer struct {
	*httptest.Server
	t   *testing.T
	key *ecdsa.PrivateKey

	silent  atomic.Bool            // it tells nothing of users
	granted atomic.Pointer[string] // the id_token that a code is exchanged for
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{t: t, key: key}
	i.Server = httptest.NewServer(http.HandlerFunc(i.answer))
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) answer(w http.ResponseWriter, r *http.Request) {
	var answer any
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		answer = map[string]any{
			"issuer": i.URL, "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token",
			"userinfo_endpoint": i.URL + "/userinfo", "id_token_signing_alg_values_supported": []string{"ES256"},
		}
	case "/keys":
		answer = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &i.key.PublicKey, KeyID: "1", Algorithm: "ES256", Use: "sig"}}}
	case "/token":
		answer = map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": *i.granted.Load()}
	case "/userinfo":
		if i.silent.Load() {
			http.Error(w, "not now", http.StatusBadGateway)
			return
		}
		answer = map[string]any{"sub": "subject", "groups": []string{"staff"}}
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		i.t.Error(err)
	}
}

// token signs claims over the usual ones.
func (i *issuer) token(alg jose.SignatureAlgorithm, key any, with map[string]any) string {
	i.t.Helper()
	claims := map[string]any{"iss": i.URL, "sub": "subject", "aud": "sandkasten", "exp": time.Now().Add(time.Hour).Unix(), "preferred_username": "wanda"}
	for name, value := range with {
		claims[name] = value
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", "1"))
	if err != nil {
		i.t.Fatal(err)
	}
	text, err := json.Marshal(claims)
	if err != nil {
		i.t.Fatal(err)
	}
	signed, err := signer.Sign(text)
	if err != nil {
		i.t.Fatal(err)
	}
	raw, err := signed.CompactSerialize()
	if err != nil {
		i.t.Fatal(err)
	}
	return raw
}

func newTokens(t *testing.T, i *issuer, set func(*oidc.Options)) (*oidc.Provider, *accounts.Accounts) {
	t.Helper()
	db, err := store.Open(context.WithoutCancel(t.Context()), storetest.NewDB(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	users, err := accounts.New(t.Context(), accounts.Options{Store: db, RemoveOwned: func(context.Context, string) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	o := oidc.Options{
		Issuer: i.URL, ClientID: "sandkasten", Audience: "sandkasten", NameClaim: "preferred_username", GroupsClaim: "groups",
		CreateUsers: true, Store: db, Accounts: users,
	}
	set(&o)
	return oidc.New(o), users
}

func TestAccessTokens(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	p, users := newTokens(t, i, func(*oidc.Options) {})
	good := i.token(jose.ES256, i.key, nil)
	for range 2 { // the second one is remembered
		who, ends, err := p.Token(t.Context(), good)
		if err != nil || ends.Before(time.Now().Add(50*time.Minute)) || who.Owner != "wanda" || who.ReadOnly || who.Scopes != 0 {
			t.Fatalf("%+v, %v", who, err)
		}
	}
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := (&jose.JSONWebKey{Key: &i.key.PublicKey}).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	none := strings.Split(good, ".")
	for name, token := range map[string]string{
		"of another key":           i.token(jose.ES256, stranger, nil),
		"without a signature":      "eyJhbGciOiJub25lIn0." + none[1] + ".",
		"signed by what is public": i.token(jose.HS256, public, nil),
		"of another issuer":        i.token(jose.ES256, i.key, map[string]any{"iss": "https://example.org"}),
		"for another audience":     i.token(jose.ES256, i.key, map[string]any{"aud": []string{"other"}}),
		"that has ended":           i.token(jose.ES256, i.key, map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}),
		"that begins later":        i.token(jose.ES256, i.key, map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}),
		"of nobody":                i.token(jose.ES256, i.key, map[string]any{"sub": ""}),
		"that is an id_token":      i.token(jose.ES256, i.key, map[string]any{"nonce": "n"}),
		"to refresh others":        i.token(jose.ES256, i.key, map[string]any{"typ": "Refresh"}),
		"that was changed":         none[0] + "." + none[1][:len(none[1])-2] + "AA." + none[2],
		"that is none":             "a.b.c",
	} {
		if who, _, err := p.Token(t.Context(), token); !errdefs.Is(err, errdefs.Unauthenticated) || who != (auth.Principal{}) {
			t.Errorf("a token %s: %+v, %v", name, who, err)
		}
	}
	who, _, err := p.Token(t.Context(), good)
	if err != nil {
		t.Fatal(err)
	}
	underWay, stop := users.Watch(t.Context(), who)
	defer stop()
	if err := underWay.Err(); err != nil {
		t.Fatal(err)
	}
	disabled := accounts.Disabled
	if _, err := users.UpdateUser(t.Context(), auth.System("test"), "wanda", accounts.UserUpdate{State: &disabled}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.Token(t.Context(), good); !errdefs.Is(err, errdefs.PermissionDenied) {
		t.Errorf("of a disabled user: %v", err)
	}
	if cause := context.Cause(underWay); !errors.Is(cause, auth.ErrEnded) {
		t.Errorf("what is under way in a disabled user's name: %v", cause)
	}
	if late, stop := users.Watch(t.Context(), who); late.Err() == nil {
		stop()
		t.Error("what is checked before the user is disabled begins after that")
	}
}

// What a token lacks the provider is asked for.
func TestGroupsOfAnAccessToken(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	in, _ := newTokens(t, i, func(o *oidc.Options) { o.AllowedGroups = []string{"staff"} })
	if _, _, err := in.Token(t.Context(), i.token(jose.ES256, i.key, nil)); err != nil {
		t.Error(err)
	}
	out, _ := newTokens(t, i, func(o *oidc.Options) { o.AllowedGroups = []string{"board"} })
	if _, _, err := out.Token(t.Context(), i.token(jose.ES256, i.key, nil)); !errdefs.Is(err, errdefs.PermissionDenied) {
		t.Errorf("of no group that is allowed: %v", err)
	}
	// Another's answer is not about this subject.
	if _, _, err := in.Token(t.Context(), i.token(jose.ES256, i.key, map[string]any{"sub": "other"})); !errdefs.Is(err, errdefs.PermissionDenied) {
		t.Errorf("of another subject: %v", err)
	}
}

// A token that says nothing of groups takes no role away.
func TestRoleWithoutGroups(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	p, users := newTokens(t, i, func(o *oidc.Options) { o.AdminGroups = []string{"staff"} })
	roleAfter := func(with map[string]any) accounts.Role {
		t.Helper()
		if _, _, err := p.Token(t.Context(), i.token(jose.ES256, i.key, with)); err != nil {
			t.Fatal(err)
		}
		all, err := users.Users(t.Context(), auth.System("test"))
		if err != nil || len(all) != 1 {
			t.Fatalf("%+v, %v", all, err)
		}
		return all[0].Role
	}
	if role := roleAfter(nil); role != accounts.RoleAdmin {
		t.Errorf("of an admin's group: %s", role)
	}
	i.silent.Store(true)
	if role := roleAfter(map[string]any{"jti": "2"}); role != accounts.RoleAdmin {
		t.Errorf("of nobody knows what: %s", role)
	}
	if role := roleAfter(map[string]any{"groups": []string{}}); role != accounts.RoleUser {
		t.Errorf("of no group: %s", role)
	}
}
