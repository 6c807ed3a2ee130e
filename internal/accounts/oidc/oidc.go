// Package oidc signs users in by an OpenID Connect provider: the way there and back,
// with PKCE, and a state and nonce that are bound to the browser, and which user the
// answer stands for. How a browser keeps its sign-in does not belong here.
package oidc

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"github.com/sandkasten/sandkasten/internal/accounts"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// Store remembers which user a subject of a provider is.
type Store interface {
	// IdentityUser returns the id of a user, or "".
	IdentityUser(ctx context.Context, issuer, subject string) (userID string, err error)
	PutIdentity(ctx context.Context, issuer, subject, userID string) error
}

// Options configures a provider. Of the lists an empty one allows everybody.
type Options struct {
	Issuer, ClientID, ClientSecret string

	Scopes         []string // beside openid
	AllowedDomains []string // of verified e-mail addresses
	AllowedGroups  []string
	AdminGroups    []string // whose members are admins, and nobody else who signs in here; empty leaves roles alone
	GroupsClaim    string
	NameClaim      string // that names a user who is made
	CreateUsers    bool
	Audience       string // that access tokens must be for
	LinkUsers      bool   // a verified e-mail address is the user who has it

	Store    Store
	Accounts *accounts.Accounts
}

// Provider is one that signs users in.
type Provider struct {
	opts   Options
	secret [32]byte // signs what a browser keeps until it comes back
	tokens seen

	asking singleflight.Group
	found  atomic.Pointer[oidc.Provider] // nil until the provider has answered
}

// New returns a provider. It is asked when somebody signs in, and may be down before.
func New(o Options) *Provider {
	p := &Provider{opts: o}
	rand.Read(p.secret[:]) // never fails: crypto/rand ends the process instead
	return p
}

// Patience is how long somebody may take at the provider.
const Patience = 10 * time.Minute

// askFor is how long the provider itself may take.
const askFor = 10 * time.Second

// discover returns the provider, which it asks about itself once. All that wait for its
// answer have the same one, and may leave.
func (p *Provider) discover(ctx context.Context) (*oidc.Provider, error) {
	if found := p.found.Load(); found != nil {
		return found, nil
	}
	answer := p.asking.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askFor)
		defer cancel()
		found, err := oidc.NewProvider(ctx, p.opts.Issuer)
		if err == nil {
			p.found.Store(found)
		}
		return found, err
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case got := <-answer:
		if got.Err != nil {
			return nil, errdefs.Wrap(got.Err, errdefs.Unavailable, "the provider that signs users in does not answer; try again, or sign in with a password")
		}
		return got.Val.(*oidc.Provider), nil
	}
}

func (p *Provider) config(found *oidc.Provider, back string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.opts.ClientID, ClientSecret: p.opts.ClientSecret, Endpoint: found.Endpoint(), RedirectURL: back,
		Scopes: append([]string{oidc.ScopeOpenID}, p.opts.Scopes...),
	}
}

// trip is what a browser keeps on its way to the provider and back.
type trip struct {
	State, Nonce, Verifier string
	Until                  time.Time
}

// Start begins a sign-in: the address to go to, and what the browser keeps. back is
// where the provider sends it afterwards.
func (p *Provider) Start(ctx context.Context, back string) (address, kept string, err error) {
	found, err := p.discover(ctx)
	if err != nil {
		return "", "", err
	}
	t := trip{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Until: time.Now().Add(Patience)}
	data, err := json.Marshal(t)
	if err != nil {
		return "", "", err
	}
	kept = base64.RawURLEncoding.EncodeToString(data)
	kept += "." + p.sign(kept)
	return p.config(found, back).AuthCodeURL(t.State, oidc.Nonce(t.Nonce), oauth2.S256ChallengeOption(t.Verifier)), kept, nil
}

func (p *Provider) sign(text string) string {
	mac := hmac.New(sha256.New, p.secret[:])
	mac.Write([]byte(text))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// open reads what the browser has kept.
func (p *Provider) open(kept string) (t trip, ok bool) {
	text, mac, _ := strings.Cut(kept, ".")
	if subtle.ConstantTimeCompare([]byte(mac), []byte(p.sign(text))) != 1 {
		return t, false
	}
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(data, &t) != nil || time.Now().After(t.Until) {
		return t, false
	}
	return t, true
}

// claims are what the provider says of somebody.
type claims struct {
	Subject  string
	Name     string
	Email    string
	Verified bool
	Groups   []string

	// NoGroups says that Groups is empty because nobody told them, which access tokens
	// often do not.
	NoGroups bool
}

// Finish ends a sign-in: it returns the user for whom the provider has sent the browser
// back with a state and a code.
func (p *Provider) Finish(ctx context.Context, kept, state, code, back string) (accounts.User, error) {
	t, ok := p.open(kept)
	if !ok || subtle.ConstantTimeCompare([]byte(state), []byte(t.State)) != 1 {
		return accounts.User{}, errdefs.New(errdefs.PermissionDenied, "this sign-in was not begun in this browser, or took more than %d minutes; begin again", int(Patience/time.Minute))
	}
	found, err := p.discover(ctx)
	if err != nil {
		return accounts.User{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	c, err := p.redeem(ctx, found, t, code, back)
	if err != nil {
		return accounts.User{}, err
	}
	if err := p.admit(c); err != nil {
		return accounts.User{}, err
	}
	return p.userOf(ctx, c)
}

// redeem exchanges a code for what the provider says.
func (p *Provider) redeem(ctx context.Context, found *oidc.Provider, t trip, code, back string) (c claims, err error) {
	errRefused := func(err error) error {
		return errdefs.Wrap(err, errdefs.PermissionDenied, "the provider's answer is not valid; begin again, and see the daemon's log if it stays so")
	}
	token, err := p.config(found, back).Exchange(ctx, code, oauth2.VerifierOption(t.Verifier))
	if err != nil {
		if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
			// Its text has the body of the answer, which may have a token.
			return c, errRefused(errors.New("the provider refuses the code: " + refused.ErrorCode))
		}
		return c, errdefs.Wrap(err, errdefs.Unavailable, "the provider that signs users in does not answer; try again")
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return c, errRefused(errors.New("the provider sends no id_token"))
	}
	id, err := found.Verifier(&oidc.Config{ClientID: p.opts.ClientID}).Verify(ctx, raw)
	if err != nil {
		return c, errRefused(err)
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(t.Nonce)) != 1 {
		return c, errRefused(errors.New("the id_token has another nonce"))
	}
	all := map[string]any{}
	if err := id.Claims(&all); err != nil {
		return c, errRefused(err)
	}
	if err := p.checkID(id, all); err != nil {
		return c, errRefused(err)
	}
	// Some providers tell the rest only there.
	info, err := found.UserInfo(ctx, oauth2.StaticTokenSource(token))
	switch {
	case err == nil && info.Subject == id.Subject:
		merge(all, info)
	case err != nil && found.UserInfoEndpoint() != "" && p.needsGroups() && all[p.opts.GroupsClaim] == nil:
		return c, errdefs.Wrap(err, errdefs.Unavailable, "the provider that signs users in does not tell your groups now; try again")
	}
	c = p.read(id.Subject, all)
	c.NoGroups = false // a sign-in without groups is of somebody in none
	return c, nil
}

// checkID refuses an id_token that names nobody, who would be one user for all, and one that was
// made for another client. Whoever handed that one on is not who signs in here.
func (p *Provider) checkID(id *oidc.IDToken, all map[string]any) error {
	if id.Subject == "" {
		return errNoSubject
	}
	party, told := all["azp"]
	switch {
	case told && party != p.opts.ClientID:
		return errors.New("the id_token is for another client: its azp is not oidc.client_id")
	case !told && len(id.Audience) > 1:
		return errors.New("the id_token is for several clients, and has no azp that says for which")
	}
	return nil
}

var errNoSubject = errors.New("the token has no subject (sub)")

func (p *Provider) read(subject string, all map[string]any) claims {
	c := claims{Subject: subject, NoGroups: all[p.opts.GroupsClaim] == nil}
	c.Name, _ = all[p.opts.NameClaim].(string)
	c.Email, _ = all["email"].(string)
	switch verified := all["email_verified"].(type) {
	case bool:
		c.Verified = verified
	case string: // of some providers
		c.Verified = verified == "true"
	}
	switch groups := all[p.opts.GroupsClaim].(type) {
	case string:
		c.Groups = []string{groups}
	case []any:
		for _, one := range groups {
			if name, ok := one.(string); ok {
				c.Groups = append(c.Groups, name)
			}
		}
	}
	return c
}

// needsGroups reports whether groups decide anything.
func (p *Provider) needsGroups() bool { return len(p.opts.AllowedGroups)+len(p.opts.AdminGroups) > 0 }

// admit refuses who is on none of the lists.
func (p *Provider) admit(c claims) error {
	if len(p.opts.AllowedDomains) > 0 {
		_, domain, _ := strings.Cut(c.Email, "@")
		switch {
		case !c.Verified:
			return errdefs.New(errdefs.PermissionDenied, "the provider does not say that your e-mail address is verified, which this daemon asks for")
		case !slices.Contains(p.opts.AllowedDomains, strings.ToLower(domain)):
			return errdefs.New(errdefs.PermissionDenied, "your e-mail address is of no domain in oidc.allowed_domains")
		}
	}
	if len(p.opts.AllowedGroups) > 0 && !intersect(c.Groups, p.opts.AllowedGroups) {
		return errdefs.New(errdefs.PermissionDenied, "you are in no group in oidc.allowed_groups")
	}
	return nil
}

func intersect(some, others []string) bool {
	return slices.ContainsFunc(some, func(one string) bool { return slices.Contains(others, one) })
}

// system is in whose name users are made and changed.
var system = auth.System("oidc")

// userOf returns the user of a subject, with the role of its groups. A subject that is
// not known yet becomes the user with its verified address, or a new one.
func (p *Provider) userOf(ctx context.Context, c claims) (accounts.User, error) {
	u, err := p.known(ctx, c)
	if err != nil {
		return accounts.User{}, err
	}
	if u.ID == "" {
		if u, err = p.adopt(ctx, c); err != nil {
			return accounts.User{}, err
		}
	}
	if u.State != accounts.Active {
		return accounts.User{}, errdefs.New(errdefs.PermissionDenied, "your user is disabled here; ask an admin")
	}
	if role := p.roleOf(c); len(p.opts.AdminGroups) > 0 && role != u.Role && !c.NoGroups {
		return p.opts.Accounts.UpdateUser(ctx, system, u.Name, accounts.UserUpdate{Role: &role})
	}
	return u, nil
}

func (p *Provider) roleOf(c claims) accounts.Role {
	if intersect(c.Groups, p.opts.AdminGroups) {
		return accounts.RoleAdmin
	}
	return accounts.RoleUser
}

// known returns the user of a subject that has signed in before, or none.
func (p *Provider) known(ctx context.Context, c claims) (accounts.User, error) {
	id, err := p.opts.Store.IdentityUser(ctx, p.opts.Issuer, c.Subject)
	if err != nil || id == "" {
		return accounts.User{}, err
	}
	all, err := p.opts.Accounts.Users(ctx, system)
	if err != nil {
		return accounts.User{}, err
	}
	for _, u := range all {
		if u.ID == id {
			return u, nil
		}
	}
	return accounts.User{}, nil // deleted meanwhile
}

// adopt makes a subject a user. A name is never enough for one that is there: at many
// providers people choose it themselves.
func (p *Provider) adopt(ctx context.Context, c claims) (accounts.User, error) {
	u, ok := accounts.User{}, false
	if p.opts.LinkUsers && c.Verified && strings.Contains(c.Email, "@") {
		u, ok = p.opts.Accounts.Known(c.Email)
	}
	if !ok {
		var err error
		if u, err = p.create(ctx, c); err != nil {
			return u, err
		}
	}
	if err := p.opts.Accounts.Adopt(ctx, u.Name); err != nil {
		return u, err
	}
	return u, p.opts.Store.PutIdentity(ctx, p.opts.Issuer, c.Subject, u.ID)
}

func (p *Provider) create(ctx context.Context, c claims) (accounts.User, error) {
	if !p.opts.CreateUsers {
		return accounts.User{}, errdefs.New(errdefs.PermissionDenied, "you have no user here; ask an admin, who may set oidc.create_users")
	}
	name, _, _ := strings.Cut(strings.ToLower(c.Name), "@")
	if !auth.IsOwner(name) {
		return accounts.User{}, errdefs.New(errdefs.PermissionDenied, "the provider's claim %s is no name for a user: a user needs %s", p.opts.NameClaim, auth.OwnerRule)
	}
	req := accounts.UserRequest{Name: name, Role: accounts.RoleUser, SelfMade: true}
	if len(p.opts.AdminGroups) > 0 {
		req.Role = p.roleOf(c)
	}
	if c.Verified && !p.opts.Accounts.HasEmail(c.Email) { // who has it keeps it, and keeps nobody out
		req.Email, req.Verified = c.Email, true
	}
	u, err := p.opts.Accounts.CreateUser(ctx, system, req)
	if errdefs.Is(err, errdefs.AlreadyExists) {
		return u, errdefs.Wrap(err, errdefs.PermissionDenied, "a user %s is there already and is not known to be you; ask an admin", name)
	}
	return u, err
}
