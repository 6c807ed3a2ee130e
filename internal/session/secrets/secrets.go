// Package secrets keeps what owners store for the networks of their sessions:
// credentials that the relay sends in their name, and that no client ever reads
// again. What becomes of them in a session is not its business.
package secrets

import (
	"context"
	"fmt"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/network"
	"github.com/sandkasten/sandkasten/internal/seal"
	"github.com/sandkasten/sandkasten/internal/session/check"
)

// What one owner may store. The API's document says the same, which a test of it
// compares.
const (
	MaxSecrets = 1000
	MaxHosts   = 64
	MaxHost    = 255 // bytes of one
	MaxPlace   = 128 // bytes of the name of a header or a parameter
)

// Secret is a stored secret without its value.
type Secret struct {
	Owner         string
	Name          string // as sessions refer to it, among the owner's
	Hosts         []string
	Header, Query string // where it goes: one of them
	Shared        bool   // sessions of every owner may refer to it
	CreatedAt     time.Time
	UpdatedAt     time.Time // the last time that it was set
}

// Row is a secret as a Store has it.
type Row struct {
	Secret

	Sealed []byte // the value
}

// Store remembers secrets. As with session.Store, what it has written survives a
// crash from the moment the method returns.
type Store interface {
	// PutSecret inserts a secret or replaces the owner's of that name, whose
	// CreatedAt stays. It returns ResourceExhausted if the owner has most others.
	PutSecret(ctx context.Context, row Row, most int) error
	// GetSecret returns NotFound if the owner has none of that name.
	GetSecret(ctx context.Context, owner, name string) (Row, error)
	// GetSharedSecret returns the shared secret of that name, or NotFound. Of
	// several it is always the same.
	GetSharedSecret(ctx context.Context, name string) (Row, error)
	// SecretsOf returns an owner's secrets by name.
	SecretsOf(ctx context.Context, owner string) ([]Secret, error)
	// DeleteSecret forgets a secret. It returns NotFound if the owner has none of
	// that name.
	DeleteSecret(ctx context.Context, owner, name string) error
}

// Options configures secrets. Without both there are none: everything is refused
// with Unimplemented.
type Options struct {
	Store Store
	Key   *seal.Key
}

// Keeper stores secrets, and says what they are worth. Its methods are for the core,
// which knows whose sessions ask; clients have its Service. They may be called
// concurrently.
type Keeper struct{ opts Options }

// New returns what there is of secrets.
func New(o Options) *Keeper { return &Keeper{opts: o} }

// Service is what clients may do with the secrets of k.
func (k *Keeper) Service() *Secrets { return &Secrets{keeper: k} }

// Secrets is what clients do with stored secrets. Each principal knows those of its
// owner; to every other one they do not exist.
type Secrets struct{ keeper *Keeper }

// Request is a secret to store: who may get it, where it goes, and its value.
type Request struct {
	network.Secret // without a placeholder

	Shared bool // for an operator only
}

// Set stores a secret, in the place of the owner's of the same name. Sessions that
// run have the one before until their networks are opened anew.
func (s *Secrets) Set(ctx context.Context, p auth.Principal, req Request) (Secret, error) {
	if err := s.keeper.checkEnabled(); err != nil {
		return Secret{}, err
	}
	if err := checkRequest(req); err != nil {
		return Secret{}, err
	}
	if req.Shared && !mayShare(p) {
		err := errdefs.New(errdefs.PermissionDenied, "only an operator of the daemon may share a secret with every key")
		err.Field = "shared"
		return Secret{}, err
	}
	now := time.Now().UTC()
	row := Row{Secret: Secret{
		Owner: p.Owner, Name: req.Name, Hosts: req.Hosts, Header: req.Header, Query: req.Query, Shared: req.Shared, CreatedAt: now, UpdatedAt: now,
	}}
	row.Sealed = s.keeper.opts.Key.Seal([]byte(req.Value), row.about())
	if err := s.keeper.opts.Store.PutSecret(context.WithoutCancel(ctx), row, MaxSecrets); err != nil {
		return Secret{}, err
	}
	return s.Get(ctx, p, req.Name)
}

// List returns the owner's secrets by name.
func (s *Secrets) List(ctx context.Context, p auth.Principal) ([]Secret, error) {
	if err := s.keeper.checkEnabled(); err != nil {
		return nil, err
	}
	return s.keeper.opts.Store.SecretsOf(ctx, p.Owner)
}

// Get returns one of the owner's secrets.
func (s *Secrets) Get(ctx context.Context, p auth.Principal, name string) (Secret, error) {
	if err := s.keeper.checkKnown(name); err != nil {
		return Secret{}, err
	}
	row, err := s.keeper.opts.Store.GetSecret(ctx, p.Owner, name)
	return row.Secret, err
}

// Delete forgets one of the owner's secrets. Sessions that run have it until their
// networks are opened anew.
func (s *Secrets) Delete(ctx context.Context, p auth.Principal, name string) error {
	if err := s.keeper.checkKnown(name); err != nil {
		return err
	}
	return s.keeper.opts.Store.DeleteSecret(context.WithoutCancel(ctx), p.Owner, name)
}

// Reveal returns the secret that a session of an owner means by a name, with its
// value and without a placeholder: the owner's own, or a shared one. What it
// returns goes to no client.
func (k *Keeper) Reveal(ctx context.Context, owner, name string) (network.Secret, error) {
	if err := k.checkKnown(name); err != nil {
		return network.Secret{}, err
	}
	row, err := k.opts.Store.GetSecret(ctx, owner, name)
	if errdefs.Is(err, errdefs.NotFound) {
		row, err = k.opts.Store.GetSharedSecret(ctx, name)
	}
	if err != nil {
		return network.Secret{}, err
	}
	value, err := k.opts.Key.Open(row.Sealed, row.about())
	if err != nil {
		return network.Secret{}, errdefs.Wrap(err, errdefs.Unprocessable, "the stored secret %s cannot be opened with the daemon's key; set it again", name)
	}
	return network.Secret{Name: row.Name, Hosts: row.Hosts, Header: row.Header, Query: row.Query, Value: string(value)}, nil
}

// about is what the value of s is bound to: nobody without the key can give it to
// another owner, or send it elsewhere. A change of this text loses all values.
func (s Secret) about() []byte {
	return fmt.Appendf(nil, "%s\x00%s\x00%+q %+q %+q %t", s.Owner, s.Name, s.Hosts, s.Header, s.Query, s.Shared)
}

// mayShare reports whether a principal may store what every owner's sessions use.
func mayShare(p auth.Principal) bool { return p.Owner == auth.Admin || p.Oversees() }

// NameRule says what IsName accepts.
const NameRule = "must be 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-', and not '.' or '..'"

// IsName reports whether name may be a secret's.
func IsName(name string) bool { return check.IsName(name) && name != "." && name != ".." }

func checkRequest(req Request) error {
	if !IsName(req.Name) {
		return errdefs.Invalid("name", NameRule)
	}
	if len(req.Hosts) > MaxHosts {
		return errdefs.Invalid("hosts", "must be at most %d", MaxHosts)
	}
	for _, host := range req.Hosts {
		if len(host) > MaxHost {
			return errdefs.Invalid("hosts", "must be names of at most %d bytes", MaxHost)
		}
	}
	if len(req.Header) > MaxPlace {
		return errdefs.Invalid("header", "must have at most %d bytes", MaxPlace)
	}
	if len(req.Query) > MaxPlace || !check.IsPrintable(req.Query) {
		return errdefs.Invalid("query", "must be at most %d printable characters", MaxPlace)
	}
	if field, rule := req.Fault(); field != "" {
		return errdefs.Invalid(field, "%s", rule)
	}
	return nil
}

func (k *Keeper) checkEnabled() error {
	if k.opts.Store == nil || k.opts.Key == nil {
		return errdefs.New(errdefs.Unimplemented, "this daemon stores no secrets")
	}
	return nil
}

// checkKnown refuses a name that no secret can have.
func (k *Keeper) checkKnown(name string) error {
	if err := k.checkEnabled(); err != nil {
		return err
	}
	if !IsName(name) {
		return errdefs.New(errdefs.NotFound, "no such secret").Because(errdefs.NoSuchSecret)
	}
	return nil
}
