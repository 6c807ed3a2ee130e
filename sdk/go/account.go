package sandkasten

import (
	"context"
	"net/http"
	"time"
)

// User is somebody who has keys, as the daemon told it.
type User struct {
	Name        string    `json:"name"` // the owner of what the user makes
	Email       string    `json:"email,omitempty"`
	Role        string    `json:"role"`  // user or admin
	State       string    `json:"state"` // active, disabled or deleting
	HasPassword bool      `json:"has_password"`
	Inspect     bool      `json:"inspect"`         // of an admin: may look into what others have, who are told
	Images      string    `json:"images"`          // of a user who is no admin: none, pull or build
	Quota       *Quota    `json:"quota,omitempty"` // what is otherwise than the daemon's configuration has it
	CreatedAt   time.Time `json:"created_at"`
}

// UserOptions is what a new user may have.
type UserOptions struct {
	Email    string `json:"email,omitempty"`
	Role     string `json:"role,omitempty"` // user or admin; user if it is empty
	Password string `json:"password,omitempty"`
}

// UserUpdate is what to change of a user; nil leaves things as they are.
type UserUpdate struct {
	Email    *string `json:"email,omitempty"` // "" takes it away
	Role     *string `json:"role,omitempty"`
	State    *string `json:"state,omitempty"`    // active or disabled
	Password *string `json:"password,omitempty"` // "" takes it away

	// CurrentPassword is for users who change their own e-mail address or password with
	// a key that ends, that another key made, or that may less than they do by signing in.
	CurrentPassword string `json:"current_password,omitempty"`

	Quota *QuotaUpdate `json:"quota,omitempty"` // only for admins

	Inspect *bool   `json:"inspect,omitempty"` // only by the daemon's own key, of admins
	Images  *string `json:"images,omitempty"`  // only by admins: none, pull or build
}

// Key is an API key as the daemon told it: all but its text, which CreateKey alone
// returns.
type Key struct {
	ID         string     `json:"id"`
	User       string     `json:"user"`
	Name       string     `json:"name,omitempty"`
	Scope      string     `json:"scope"`               // read, run or admin
	ParentID   string     `json:"parent_id,omitempty"` // of the key that made it, with which it ends
	CreatedAt  time.Time  `json:"created_at"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty"`
	RevokedAt  *time.Time `json:"revoked_at,omitempty"`
	LastUsedAt *time.Time `json:"last_used_at,omitempty"`
}

// NewKey is a key that was just made.
type NewKey struct {
	Key

	Text string `json:"key"` // what requests show; the daemon does not have it any more
}

// KeyOptions is what a new key may have.
type KeyOptions struct {
	User  string        `json:"user,omitempty"`  // whose; that of the client's key if it is empty
	Name  string        `json:"name,omitempty"`  // for people
	Scope string        `json:"scope,omitempty"` // read, run or admin; run if it is empty
	TTL   time.Duration `json:"-"`               // until it ends, in whole seconds; 0 is never, or with the key that makes it
}

// keyRequest is KeyOptions as the API has them.
type keyRequest struct {
	KeyOptions
	TTLSeconds int64 `json:"ttl_seconds,omitempty"`
}

// userRequest is UserOptions as the API has them.
type userRequest struct {
	Name string `json:"name"`
	UserOptions
}

// Me is who asks.
type Me struct {
	Owner    string `json:"owner"`               // of what is made with the client's key
	Admin    bool   `json:"admin"`               // it sees and changes what is everybody's
	ReadOnly bool   `json:"read_only,omitempty"` // it only looks: whatever changes something is refused
	User     *User  `json:"user,omitempty"`
	Key      *Key   `json:"key,omitempty"` // nil, as User, for a key of the daemon's configuration
}

// Me returns whose the client's key is.
func (c *Client) Me(ctx context.Context) (*Me, error) {
	var me Me
	if err := c.call(ctx, get("/v1/me"), &me); err != nil {
		return nil, err
	}
	return &me, nil
}

// CreateUser makes a user, without a key. Only admins may.
func (c *Client) CreateUser(ctx context.Context, name string, o *UserOptions) (*User, error) {
	var user User
	if err := c.call(ctx, post("/v1/users", userRequest{name, value(o)}), &user); err != nil {
		return nil, err
	}
	return &user, nil
}

// ListUsers returns all users by name, or only the client's own if it is no admin's.
func (c *Client) ListUsers(ctx context.Context) ([]User, error) {
	var answer struct {
		Users []User `json:"users"`
	}
	if err := c.call(ctx, get("/v1/users"), &answer); err != nil {
		return nil, err
	}
	return answer.Users, nil
}

// GetUser returns a user.
func (c *Client) GetUser(ctx context.Context, name string) (*User, error) {
	var user User
	if err := c.call(ctx, get(userPath(name)), &user); err != nil {
		return nil, err
	}
	return &user, nil
}

// UpdateUser changes a user.
func (c *Client) UpdateUser(ctx context.Context, name string, o *UserUpdate) (*User, error) {
	var user User
	r := request{method: http.MethodPatch, path: userPath(name), json: value(o), safe: true}
	if err := c.call(ctx, r, &user); err != nil {
		return nil, err
	}
	return &user, nil
}

// DeleteUser ends a user's keys and removes all that the user owns. Only admins may. It
// returns after about a second also if something is left: GetUser tells the state "deleting"
// then, and ErrNotFound when all is gone.
func (c *Client) DeleteUser(ctx context.Context, name string) error {
	return c.call(ctx, remove(userPath(name)), nil)
}

// CreateKey makes a key: one of the client's user, which is a child of the client's
// key, or one of another user, which only admins make.
func (c *Client) CreateKey(ctx context.Context, o *KeyOptions) (*NewKey, error) {
	given := value(o)
	var key NewKey
	if err := c.call(ctx, post("/v1/keys", keyRequest{given, seconds(given.TTL)}), &key); err != nil {
		return nil, err
	}
	return &key, nil
}

// ListKeys returns the keys of a user, or all that the client's key may know of if the
// name is empty: the oldest first, with those that have ended.
func (c *Client) ListKeys(ctx context.Context, user string) ([]Key, error) {
	r := get("/v1/keys")
	r.set("user", user)
	var answer struct {
		Keys []Key `json:"keys"`
	}
	if err := c.call(ctx, r, &answer); err != nil {
		return nil, err
	}
	return answer.Keys, nil
}

// RevokeKey ends a key, those that it has made and what is under way in their names.
func (c *Client) RevokeKey(ctx context.Context, id string) error {
	return c.call(ctx, remove("/v1/keys/"+segment(id)), nil)
}

func userPath(name string) string { return "/v1/users/" + segment(name) }
