package config

import (
	"net"
	"net/url"
	"time"
)

// SignIn is about users who sign in with a browser.
type SignIn struct {
	Idle time.Duration // without a request, after which a sign-in ends
	Most time.Duration // after which it ends in any case
}

// OIDC is the provider that signs users in.
type OIDC struct {
	Issuer           string // empty: there is none
	ClientID         string
	ClientSecretFile string
	Scopes           []string
	AllowedDomains   []string
	AllowedGroups    []string
	AdminGroups      []string
	GroupsClaim      string
	NameClaim        string
	CreateUsers      bool
	LinkUsers        bool
	Audience         string // of access tokens; empty is ClientID
}

func (c *Config) signInOptions() []option {
	s, o := &c.SignIn, &c.OIDC
	return []option{
		{"signin.idle_hours", hours(&s.Idle, 1, 24*365), "A browser that sends no request for so long has to sign in again."},
		{"signin.max_days", days(&s.Most, 1, 365), "A browser has to sign in again after so long in any case."},
		{"oidc.issuer", issuer(&o.Issuer), "The OpenID Connect provider that signs users in, too: see docs/users.md. Its `redirect_uri` is `/v1/auth/oidc/callback` below the daemon's address."},
		{"oidc.client_id", text(&o.ClientID), "The daemon's id at the provider."},
		{"oidc.client_secret_file", path(&o.ClientSecretFile), "A file with the daemon's secret at the provider, mode 0600. When it is not set: a public client, with PKCE alone."},
		{"oidc.scopes", texts(&o.Scopes), "Scopes to ask for beside `openid`."},
		{"oidc.allowed_domains", texts(&o.AllowedDomains), "Domains of verified e-mail addresses that may sign in, in lower case. Empty: all, verified or not."},
		{"oidc.allowed_groups", texts(&o.AllowedGroups), "Groups of which somebody has to be in one to sign in. Empty: no group is needed."},
		{"oidc.admin_groups", texts(&o.AdminGroups), "Groups whose members are admins; who is in none becomes a user at the next sign-in. Empty leaves roles alone."},
		{"oidc.groups_claim", text(&o.GroupsClaim), "The claim with the groups."},
		{"oidc.name_claim", text(&o.NameClaim), "The claim with the name of a user who is made; of an e-mail address what is before the `@`."},
		{"oidc.create_users", boolean(&o.CreateUsers), "Make a user for somebody who signs in for the first time."},
		{"oidc.audience", text(&o.Audience), "What the provider's access tokens must be for to be taken at `/mcp` instead of a key. Empty is `oidc.client_id`."},
		{"oidc.link_users", boolean(&o.LinkUsers), "Or sign them in as the user who has their verified e-mail address. Only admins set addresses then; look through those that users have set themselves before."},
	}
}

// issuer is the address of a provider, as its documents have it.
func issuer(p *string) value {
	return scalar("an https address, or an http one of this host, as https://id.example.org", "!!str", func(s string) bool {
		*p = s
		u, err := url.Parse(s)
		return err == nil && u.Host != "" && u.RawQuery == "" && u.Fragment == "" && (u.Scheme == "https" || u.Scheme == "http" && Loopback(net.JoinHostPort(u.Hostname(), "80")))
	}, func() string { return *p })
}

// oidc checks that a provider has all it needs.
func (l *loader) oidc(c *Config) {
	o := &c.OIDC
	if o.Issuer != "" && o.ClientID == "" {
		l.wrong(l.set["oidc.issuer"], "oidc.issuer", "needs oidc.client_id: set that too, or neither")
	}
}
