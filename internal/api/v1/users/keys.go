package users

import (
	"context"
	"time"

	"github.com/sandkasten/sandkasten/internal/accounts"
	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/v1/contract"
)

// Key is the contract's view of an API key: all but its text.
type Key struct {
	ID         string     `json:"id" example:"f5q2bz7lq4m3k5n6p7r2s3t4u5"`
	User       string     `json:"user" example:"alice"`
	Name       string     `json:"name,omitempty" doc:"For people." example:"laptop"`
	Scope      string     `json:"scope" enum:"read,run,admin" example:"run"`
	ParentID   string     `json:"parent_id,omitempty" doc:"The key that made it, with which it ends." example:"k5n6p7r2s3t4u5f5q2bz7lq4m3"`
	CreatedAt  time.Time  `json:"created_at"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty"`
	RevokedAt  *time.Time `json:"revoked_at,omitempty"`
	LastUsedAt *time.Time `json:"last_used_at,omitempty"`
}

func viewKey(k accounts.KeyInfo) Key {
	return Key{
		ID: k.ID, User: k.User, Name: k.Name, Scope: string(k.Scope), ParentID: k.ParentID,
		CreatedAt: k.CreatedAt, ExpiresAt: optional(k.ExpiresAt), RevokedAt: optional(k.RevokedAt), LastUsedAt: optional(k.LastUsed),
	}
}

func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// NewKey is a key that was just made.
type NewKey struct {
	Key

	Text string `json:"key" doc:"What requests show. Nothing ever shows it again." example:"sk_5jv3qk2c7m4x6b5n3a2z7w4q6e5r3t2y7u4i6o5p3s2d7f4g6h5j"`
}

// KeyRequest is a key to make.
type KeyRequest struct {
	User       string `json:"user,omitempty" minLength:"1" maxLength:"63" doc:"Whose: the user of the request's key if it is left out. Others' keys are made by admins." example:"alice"`
	Name       string `json:"name,omitempty" maxLength:"255" doc:"For people." example:"laptop"`
	Scope      string `json:"scope,omitempty" enum:"read,run,admin" doc:"read looks at things, run uses and makes them, admin has the rights of the user's role. run if it is left out." example:"run"`
	TTLSeconds int64  `json:"ttl_seconds,omitempty" minimum:"1" maximum:"315360000" doc:"When it ends. If it is left out: never, or with the key that makes it." example:"86400"`
}

// Keys is a list of them.
type Keys struct {
	Keys []Key `json:"keys" nullable:"false"`
}

type (
	// CreateKeyInput is that of CreateKey.
	CreateKeyInput struct{ Body KeyRequest }
	// NewKeyOutput is a key that was just made.
	NewKeyOutput struct{ Body NewKey }
	// ListKeysInput is that of ListKeys.
	ListKeysInput struct {
		User string `query:"user" maxLength:"63" doc:"Only those of this user."`
	}
	// KeysOutput is a list of keys.
	KeysOutput struct{ Body Keys }
	// KeyPath is what every route of one key takes.
	KeyPath struct {
		ID string `path:"id" maxLength:"26" doc:"The key's id." example:"f5q2bz7lq4m3k5n6p7r2s3t4u5"`
	}
)

// CreateKey makes a key.
func (h *Handlers) CreateKey(ctx context.Context, in *CreateKeyInput) (*NewKeyOutput, error) {
	if err := h.checkEnabled(); err != nil {
		return nil, err
	}
	made, err := h.Accounts.CreateKey(ctx, api.Caller(ctx), accounts.KeyRequest{
		User: in.Body.User, Name: in.Body.Name, Scope: accounts.Scope(in.Body.Scope), Life: time.Duration(in.Body.TTLSeconds) * time.Second,
	})
	if err != nil {
		return nil, err
	}
	api.Made(ctx, "user_key", made.ID)
	return &NewKeyOutput{NewKey{Key: viewKey(made.KeyInfo), Text: made.Text}}, nil
}

// ListKeys lists keys.
func (h *Handlers) ListKeys(ctx context.Context, in *ListKeysInput) (*KeysOutput, error) {
	if err := h.checkEnabled(); err != nil {
		return nil, err
	}
	all, err := h.Accounts.Keys(ctx, api.Caller(ctx), in.User)
	if err != nil {
		return nil, err
	}
	out := &KeysOutput{Keys{make([]Key, 0, len(all))}}
	for _, k := range all {
		out.Body.Keys = append(out.Body.Keys, viewKey(k))
	}
	return out, nil
}

// RevokeKey ends a key and those that it has made.
func (h *Handlers) RevokeKey(ctx context.Context, in *KeyPath) (*OKOutput, error) {
	if err := h.checkEnabled(); err != nil {
		return nil, err
	}
	if err := h.Accounts.RevokeKey(ctx, api.Caller(ctx), in.ID); err != nil {
		return nil, err
	}
	return contract.Done(), nil
}
