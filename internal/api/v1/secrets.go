package v1

import (
	"context"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/v1/contract"
	"github.com/sandkasten/sandkasten/internal/session/secrets"
)

// Secret is the contract's view of a stored secret: all but its value.
type Secret struct {
	Name      string    `json:"name" example:"github"`
	Hosts     []string  `json:"hosts" nullable:"false" doc:"Which hosts get it." example:"[\"api.example.org\"]"`
	Header    string    `json:"header,omitempty" doc:"In which header of a request." example:"Authorization"`
	Query     string    `json:"query,omitempty" doc:"Or in which parameter of its query." example:"key"`
	Shared    bool      `json:"shared" doc:"Sessions of every key may refer to it."`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at" doc:"The last time that it was set."`
}

func viewSecret(s secrets.Secret) Secret {
	return Secret{
		Name: s.Name, Hosts: s.Hosts, Header: s.Header, Query: s.Query, Shared: s.Shared,
		CreatedAt: s.CreatedAt.UTC(), UpdatedAt: s.UpdatedAt.UTC(),
	}
}

// SecretRequest is a secret to store.
type SecretRequest struct {
	Hosts  []string `json:"hosts" nullable:"false" minItems:"1" maxItems:"64" doc:"Which hosts get it: names of at most 255 bytes, each with at most one leading wildcard label, without ports." example:"[\"api.example.org\"]"`
	Header string   `json:"header,omitempty" minLength:"1" maxLength:"128" doc:"In which header of a request it goes. Give this or query." example:"Authorization"`
	Query  string   `json:"query,omitempty" minLength:"1" maxLength:"128" doc:"In which parameter of a request's query it goes."`
	Value  string   `json:"value" minLength:"8" maxLength:"16384" doc:"What the host gets, such as the header with its scheme. Nothing ever shows it again." example:"Bearer of-great-worth"`
	Shared bool     `json:"shared,omitempty" doc:"Sessions of every key may refer to it. Only for the daemon's own key."`
}

// SecretPath is what every route of one secret takes.
type SecretPath struct {
	Name string `path:"name" doc:"The secret's name: 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-'." example:"github"`
}

type setSecretInput struct {
	SecretPath
	Body SecretRequest
}

type secretOutput struct{ Body Secret }

func (s *surface) setSecret(ctx context.Context, in *setSecretInput) (*secretOutput, error) {
	req := secrets.Request{Shared: in.Body.Shared}
	req.Name, req.Hosts, req.Header, req.Query, req.Value = in.Name, in.Body.Hosts, in.Body.Header, in.Body.Query, in.Body.Value
	stored, err := s.manager.Secrets.Set(ctx, api.Caller(ctx), req)
	if err != nil {
		return nil, err
	}
	return &secretOutput{viewSecret(stored)}, nil
}

// Secrets is a list of them.
type Secrets struct {
	Secrets []Secret `json:"secrets" nullable:"false"`
}

type secretsOutput struct{ Body Secrets }

func (s *surface) listSecrets(ctx context.Context, _ *struct{}) (*secretsOutput, error) {
	all, err := s.manager.Secrets.List(ctx, api.Caller(ctx))
	if err != nil {
		return nil, err
	}
	out := &secretsOutput{Secrets{make([]Secret, 0, len(all))}}
	for _, one := range all {
		out.Body.Secrets = append(out.Body.Secrets, viewSecret(one))
	}
	return out, nil
}

func (s *surface) getSecret(ctx context.Context, in *SecretPath) (*secretOutput, error) {
	found, err := s.manager.Secrets.Get(ctx, api.Caller(ctx), in.Name)
	if err != nil {
		return nil, err
	}
	return &secretOutput{viewSecret(found)}, nil
}

func (s *surface) deleteSecret(ctx context.Context, in *SecretPath) (*okOutput, error) {
	if err := s.manager.Secrets.Delete(ctx, api.Caller(ctx), in.Name); err != nil {
		return nil, err
	}
	return contract.Done(), nil
}
