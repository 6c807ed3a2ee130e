package oidc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// Issuer is the provider's address, which is also its name.
func (p *Provider) Issuer() string { return p.opts.Issuer }

// algorithms are those of tokens: signatures by keys that the provider alone has.
var algorithms = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA,
}

// ofIDTokens are claims that an id_token has and an access token has not. Clients hand
// id_tokens about as a proof of who somebody is, and not to act in their name.
var ofIDTokens = []string{"nonce", "at_hash", "c_hash"}

// What bounds the memory of tokens that were found valid.
const (
	maxTokens  = 1000
	maxTrusted = 5 * time.Minute
)

// seen remembers what valid tokens said, by their hash.
type seen struct {
	mu   sync.Mutex
	said map[[sha256.Size]byte]told // guarded by mu
}

type told struct {
	claims claims
	until  time.Time // that it is trusted
	ends   time.Time // itself
}

func (s *seen) get(hash [sha256.Size]byte) (told, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.said[hash]
	if !ok || !time.Now().Before(t.until) {
		return told{}, false
	}
	return t, true
}

func (s *seen) put(hash [sha256.Size]byte, t told) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.said == nil || len(s.said) >= maxTokens {
		s.said = map[[sha256.Size]byte]told{}
	}
	s.said[hash] = t
}

// IsToken reports whether a credential has the form of an access token that can be
// checked here.
func (p *Provider) IsToken(credential string) bool { return strings.Count(credential, ".") == 2 }

// Token returns who acts by an access token of the provider, and when it ends: a JWT
// that it has signed for Options.Audience. The user is the one who would be signed in by
// the same subject, and is asked for at each call; what the token itself says is trusted
// for five minutes at most.
func (p *Provider) Token(ctx context.Context, raw string) (auth.Principal, time.Time, error) {
	hash := sha256.Sum256([]byte(raw))
	t, ok := p.tokens.get(hash)
	if !ok {
		checked, err := p.checkToken(ctx, raw)
		if err != nil {
			return auth.Principal{}, time.Time{}, errdefs.Wrap(err, errdefs.Unauthenticated, "the access token is not valid here")
		}
		t = checked
		p.tokens.put(hash, t)
	}
	if err := p.admit(t.claims); err != nil {
		return auth.Principal{}, time.Time{}, err
	}
	u, err := p.userOf(ctx, t.claims)
	if err != nil {
		return auth.Principal{}, time.Time{}, err
	}
	return u.TokenPrincipal(hex.EncodeToString(hash[:8])), t.ends, nil
}

func (p *Provider) checkToken(ctx context.Context, raw string) (told, error) {
	found, err := p.discover(ctx)
	if err != nil {
		return told{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	token, err := found.Verifier(&oidc.Config{SkipClientIDCheck: true, SupportedSigningAlgs: algorithms}).Verify(ctx, raw)
	if err != nil {
		return told{}, err
	}
	if audience := p.opts.Audience; audience == "" || !slices.Contains(token.Audience, audience) {
		return told{}, errors.New("it is for another audience")
	}
	all := map[string]any{}
	if err := token.Claims(&all); err != nil {
		return told{}, err
	}
	if token.Subject == "" {
		return told{}, errNoSubject
	}
	for _, name := range ofIDTokens {
		if _, has := all[name]; has {
			return told{}, errors.New("it is an id_token")
		}
	}
	if kind, _ := all["typ"].(string); kind == "ID" || kind == "Refresh" { // Keycloak's
		return told{}, errors.New("it is no access token")
	}
	if p.needsMore(all) {
		if info, err := found.UserInfo(ctx, oauth2.StaticTokenSource(&oauth2.Token{AccessToken: raw})); err == nil && info.Subject == token.Subject {
			merge(all, info)
		}
	}
	until := time.Now().Add(maxTrusted)
	if token.Expiry.Before(until) {
		until = token.Expiry
	}
	return told{p.read(token.Subject, all), until, token.Expiry}, nil
}

// needsMore reports whether a token lacks what users are chosen by: access tokens often
// do, and the provider tells it apart.
func (p *Provider) needsMore(all map[string]any) bool {
	needed := []string{p.opts.NameClaim}
	if len(p.opts.AllowedDomains) > 0 || p.opts.LinkUsers {
		needed = append(needed, "email", "email_verified")
	}
	if p.needsGroups() {
		needed = append(needed, p.opts.GroupsClaim)
	}
	return slices.ContainsFunc(needed, func(name string) bool {
		_, has := all[name]
		return !has
	})
}

// merge adds what the provider tells of a user to what a token says.
func merge(all map[string]any, info *oidc.UserInfo) {
	more := map[string]any{}
	if info.Claims(&more) != nil {
		return
	}
	for name, value := range more {
		if _, told := all[name]; !told {
			all[name] = value
		}
	}
}
