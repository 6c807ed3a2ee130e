package sandkasten

import (
	"context"
	"net/http"
	"time"
)

// Secret is a stored secret as the daemon told it: all but its value, which it never
// tells.
type Secret struct {
	Name      string    `json:"name"`
	Hosts     []string  `json:"hosts"`            // that get the value
	Header    string    `json:"header,omitempty"` // of a request, in which it goes
	Query     string    `json:"query,omitempty"`  // or the parameter of a request's query
	Shared    bool      `json:"shared"`           // sessions of every key may refer to it
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"` // the last time that it was set
}

// SecretOptions is a secret to store. One of Header and Query is needed.
type SecretOptions struct {
	Hosts  []string `json:"hosts"`            // names that may begin with one wildcard label: "*.example.org"
	Header string   `json:"header,omitempty"` // where the value goes, such as "Authorization"
	Query  string   `json:"query,omitempty"`
	Value  string   `json:"value"`            // what the host gets, such as "Bearer ..."
	Shared bool     `json:"shared,omitempty"` // only for the daemon's own key
}

// SetSecret stores a secret, in the place of the key's of the same name. Running
// sessions have the earlier value until their network is set, they are started or the
// daemon restarts.
func (c *Client) SetSecret(ctx context.Context, name string, o *SecretOptions) (*Secret, error) {
	var secret Secret
	r := request{method: http.MethodPut, path: secretPath(name), json: value(o), safe: true}
	if err := c.call(ctx, r, &secret); err != nil {
		return nil, err
	}
	return &secret, nil
}

// GetSecret returns a secret that is stored, without its value.
func (c *Client) GetSecret(ctx context.Context, name string) (*Secret, error) {
	var secret Secret
	if err := c.call(ctx, get(secretPath(name)), &secret); err != nil {
		return nil, err
	}
	return &secret, nil
}

// ListSecrets returns the key's secrets by name, without their values.
func (c *Client) ListSecrets(ctx context.Context) ([]Secret, error) {
	var answer struct {
		Secrets []Secret `json:"secrets"`
	}
	if err := c.call(ctx, get("/v1/secrets"), &answer); err != nil {
		return nil, err
	}
	return answer.Secrets, nil
}

// DeleteSecret forgets a stored secret. Running sessions have it until their network
// is set, they are started or the daemon restarts.
func (c *Client) DeleteSecret(ctx context.Context, name string) error {
	return c.call(ctx, remove(secretPath(name)), nil)
}

func secretPath(name string) string { return "/v1/secrets/" + segment(name) }
