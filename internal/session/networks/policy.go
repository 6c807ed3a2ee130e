package networks

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/network"
	"github.com/sandkasten/sandkasten/internal/network/relay"
	"github.com/sandkasten/sandkasten/internal/runtime"
)

// Policy is what a session may reach, as it may be shown.
type Policy struct {
	network.Policy

	Secrets []Secret `json:",omitempty"`
	// Engine says that the sandbox is in a network of a container engine, which decides
	// what it reaches. The mode is then full.
	Engine bool `json:",omitempty"`
}

// Opens reports whether there is a way out for us to open.
func (p Policy) Opens() bool { return !p.Engine && p.Policy.Opens() }

// Plain reports whether there is nothing to keep of p: it opens nothing.
func (p Policy) Plain() bool {
	return !p.Engine && !p.Policy.Opens() && p.Empty() && len(p.Secrets) == 0
}

// Secret is what may be told of a secret: everything but its value.
type Secret struct {
	Name          string // of the environment variable that has the placeholder
	Hosts         []string
	Header, Query string
	Stored        string `json:",omitempty"` // the name of the stored secret that it is
	Placeholder   string
}

// Asked is what a client asks for. Nil secrets keep those that there are.
type Asked struct {
	Policy  network.Policy
	Secrets []AskedSecret
}

// AskedSecret is a secret with its value, a stored one by its name, or, with neither,
// one that the session has.
type AskedSecret struct {
	Name          string
	Hosts         []string
	Header, Query string
	Value         string
	Stored        string
}

// Planned is a network that may be kept: a policy, and what is never shown of it.
type Planned struct {
	Policy Policy

	values    map[string]string // of secrets that are not stored ones, by name
	authority *relay.Authority  // nil without secrets
	rules     *network.Rules    // nil if it opens nothing, or was not planned just now
}

// maxSecrets bounds the secrets of one session.
const maxSecrets = 32

// Plan checks what a client asks for, fills in what it leaves out, and returns what
// may be kept. A nil Asked is the default of the session's image.
func (k *Keeper) Plan(ctx context.Context, s Subject, asked *Asked) (Planned, error) {
	if s.Network.Mode == runtime.NetworkEngine {
		return planEngine(asked)
	}
	if asked == nil {
		asked = &Asked{Policy: k.defaultOf(ctx, s)}
	}
	p := asked.Policy
	p.Mode = cmp.Or(p.Mode, network.None)
	if p.Mode == network.None && asked.Secrets == nil && len(s.Policy.Secrets) == 0 && p.Empty() {
		return Planned{Policy: Policy{Policy: network.Policy{Mode: network.None}}}, nil
	}
	if k.opts.Store == nil {
		return Planned{}, errNoNetworks()
	}
	if p.Mode.Wider(k.opts.Most) {
		err := errdefs.New(errdefs.PermissionDenied, "network.mode %s is wider than this daemon allows, which is %s: choose that, or have its operator raise maximum.network_mode", p.Mode, k.opts.Most)
		err.Field = "network.mode"
		return Planned{}, err
	}
	rules, err := k.compile(ctx, s, p)
	if err != nil {
		return Planned{}, err
	}
	if p.Opens() {
		if err := k.opts.OverQuota(s.Owner); err != nil {
			return Planned{}, err
		}
	}
	planned := Planned{Policy: Policy{Policy: p}, values: map[string]string{}, rules: rules}
	return planned, k.planSecrets(ctx, s, asked.Secrets, &planned)
}

// defaultOf is the default for a session: that of its image, or its owner's ceiling
// where the default reaches more.
func (k *Keeper) defaultOf(ctx context.Context, s Subject) network.Policy {
	p := k.Default(s.Image)
	ceiling, has := k.opts.Ceilings[s.Owner]
	if !has || !p.Opens() {
		return p
	}
	if _, err := k.compile(ctx, s, p); errdefs.Is(err, errdefs.PermissionDenied) {
		return ceiling
	}
	return p
}

// planEngine is for a sandbox that is in an engine's network.
func planEngine(asked *Asked) (Planned, error) {
	if asked != nil && (asked.Policy.Mode != "" || !asked.Policy.Empty() || len(asked.Secrets) > 0) {
		return Planned{}, &errdefs.Error{Code: errdefs.Unimplemented, Field: "network.mode", Message: "network must be left out: the operator has this driver's sandboxes in a network of the engine, which decides what they reach"}
	}
	return Planned{Policy: Policy{Policy: network.Policy{Mode: network.Full}, Engine: true}}, nil
}

func errNoNetworks() error {
	return &errdefs.Error{Code: errdefs.Unimplemented, Field: "network.mode", Message: "network.mode must be none: this daemon gives sandboxes no networks"}
}

// planSecrets takes over the secrets that are asked for, or those that there are.
func (k *Keeper) planSecrets(ctx context.Context, s Subject, asked []AskedSecret, planned *Planned) error {
	before, err := k.unsealed(ctx, s)
	if err != nil {
		return err
	}
	if asked == nil {
		planned.Policy.Secrets, planned.values, planned.authority = s.Policy.Secrets, before.values, before.authority
		return nil
	}
	if len(asked) == 0 {
		return nil
	}
	if len(asked) > maxSecrets {
		return errdefs.Invalid("network.secrets", "must be at most %d", maxSecrets)
	}
	if k.opts.Seal == nil {
		return errdefs.New(errdefs.Unimplemented, "this daemon keeps no secrets")
	}
	for i, one := range asked {
		field := fmt.Sprintf("network.secrets[%d]", i)
		shown, value, err := k.planSecret(ctx, s, one, before)
		if err != nil {
			return within(field, err)
		}
		if slices.ContainsFunc(planned.Policy.Secrets, func(other Secret) bool { return other.Name == shown.Name }) {
			return errdefs.Invalid(field+".name", "must not be %s once more: each is the name of an environment variable", shown.Name)
		}
		planned.Policy.Secrets = append(planned.Policy.Secrets, shown)
		if shown.Stored == "" {
			planned.values[shown.Name] = value
		}
	}
	if planned.authority = before.authority; planned.authority == nil {
		planned.authority, err = relay.NewAuthority()
	}
	return err
}

// within names the place of a secret in an error about it.
func within(field string, err error) error {
	known, ok := err.(*errdefs.Error) //nolint:errorlint // one of ours, not wrapped
	if !ok {
		return err
	}
	named := *known
	named.Message = strings.Replace(named.Message, "network.secrets", field, 1)
	named.Field = cmp.Or(strings.Replace(named.Field, "network.secrets", field, 1), field)
	return &named
}

func (k *Keeper) planSecret(ctx context.Context, s Subject, asked AskedSecret, before Planned) (shown Secret, value string, err error) {
	if !isVariable(asked.Name) {
		return Secret{}, "", errdefs.Invalid("network.secrets.name", "must be the name of an environment variable: letters, digits and '_', not begun by a digit")
	}
	earlier, known := findSecret(s.Policy.Secrets, asked.Name)
	full := network.Secret{Name: asked.Name, Hosts: asked.Hosts, Header: asked.Header, Query: asked.Query, Value: asked.Value}
	switch {
	case asked.Stored != "" && (asked.Value != "" || asked.Header != "" || asked.Query != "" || len(asked.Hosts) > 0):
		return Secret{}, "", errdefs.Invalid("network.secrets.stored", "must stand alone with name: the stored secret has the rest")
	case asked.Stored != "":
		if full, err = k.stored(ctx, s.Owner, asked.Stored); err != nil {
			return Secret{}, "", err
		}
		full.Name = asked.Name
	case asked.Value == "" && known && earlier.Stored == "":
		full.Value = before.values[asked.Name]
		if len(full.Hosts) == 0 && full.Header == "" && full.Query == "" {
			full.Hosts, full.Header, full.Query = earlier.Hosts, earlier.Header, earlier.Query
		}
	}
	if err := full.Check(); err != nil {
		return Secret{}, "", err
	}
	shown = Secret{Name: full.Name, Hosts: full.Hosts, Header: full.Header, Query: full.Query, Stored: asked.Stored, Placeholder: earlier.Placeholder}
	if shown.Placeholder == "" {
		shown.Placeholder = network.NewPlaceholder()
	}
	return shown, full.Value, nil
}

func (k *Keeper) stored(ctx context.Context, owner, name string) (network.Secret, error) {
	if k.opts.Stored == nil {
		return network.Secret{}, errdefs.Invalid("network.secrets.stored", "must be left out: this daemon stores no secrets")
	}
	found, err := k.opts.Stored(ctx, owner, name)
	if errdefs.Is(err, errdefs.NotFound) {
		return network.Secret{}, errdefs.Invalid("network.secrets.stored", "must be the name of a stored secret, and there is no %s: `sandkasten secret ls` lists them", name)
	}
	return found, err
}

func findSecret(all []Secret, name string) (Secret, bool) {
	i := slices.IndexFunc(all, func(s Secret) bool { return s.Name == name })
	if i < 0 {
		return Secret{}, false
	}
	return all[i], true
}

// isVariable reports whether a name is one of an environment variable.
func isVariable(name string) bool {
	if name == "" || len(name) > 255 || name[0] >= '0' && name[0] <= '9' {
		return false
	}
	return strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// hidden is what is kept sealed.
type hidden struct {
	Values    map[string]string
	Authority []byte
}

// Keep records a network. It must be called before the session's sandbox is used.
func (k *Keeper) Keep(ctx context.Context, session string, p Planned) error {
	if k.opts.Store == nil {
		return nil
	}
	public, err := json.Marshal(p.Policy)
	if err != nil {
		return fmt.Errorf("encode a network policy: %w", err)
	}
	var sealed []byte
	if p.authority != nil {
		kept := hidden{Values: p.values}
		if kept.Authority, err = p.authority.Marshal(); err != nil {
			return fmt.Errorf("encode an authority: %w", err)
		}
		plain, err := json.Marshal(kept)
		if err != nil {
			return fmt.Errorf("encode secrets: %w", err)
		}
		sealed = k.opts.Seal.Seal(plain, about(session))
	}
	return k.opts.Store.PutNetwork(ctx, session, public, sealed)
}

// about binds what is sealed to its session.
func about(session string) []byte { return []byte("network of session " + session) }

// unsealed is the network of a session as it is kept.
func (k *Keeper) unsealed(ctx context.Context, s Subject) (Planned, error) {
	p := Planned{Policy: s.Policy, values: map[string]string{}}
	if len(s.Policy.Secrets) == 0 || k.opts.Store == nil {
		return p, nil
	}
	if k.opts.Seal == nil {
		return p, errdefs.New(errdefs.Unavailable, "the session has secrets, and this daemon has no key for them")
	}
	sealed, err := k.opts.Store.SealedNetwork(ctx, s.ID)
	if err != nil || len(sealed) == 0 {
		return p, err
	}
	plain, err := k.opts.Seal.Open(sealed, about(s.ID))
	if err != nil {
		return p, errdefs.Wrap(err, errdefs.Unavailable, "the secrets of session %s cannot be read: the daemon's secrets_key is another one than that of their time", s.ID)
	}
	var kept hidden
	if err := json.Unmarshal(plain, &kept); err != nil {
		return p, fmt.Errorf("decode the secrets of session %s: %w", s.ID, err)
	}
	p.values = kept.Values
	p.authority, err = relay.ParseAuthority(kept.Authority)
	return p, err
}

// Copy is the network of a session that begins as another one does: with its policy
// and secrets, and placeholders and an authority of its own.
func (k *Keeper) Copy(ctx context.Context, from Subject) (Planned, error) {
	p, err := k.unsealed(ctx, from)
	if err != nil || len(p.Policy.Secrets) == 0 {
		return p, err
	}
	p.Policy.Secrets = slices.Clone(p.Policy.Secrets)
	p.authority, err = relay.NewAuthority()
	return p, err
}

// Parse reads the public part of a network, as a Store keeps it. Nothing is mode none.
func Parse(public []byte) (p Policy, err error) {
	if len(public) > 0 {
		err = json.Unmarshal(public, &p)
	}
	return p, err
}

// Size is about how much memory the policy's lists take.
func (p Policy) Size() (n int) {
	for _, entry := range p.Allow {
		n += len(entry) + 16
	}
	for _, entry := range p.Deny {
		n += len(entry) + 16
	}
	for _, secret := range p.Secrets {
		n += 256 + 64*len(secret.Hosts)
	}
	return n
}
