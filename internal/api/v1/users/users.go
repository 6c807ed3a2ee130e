// Package users is the part of /v1 about who may use the daemon: users, their API
// keys, and who asks. What somebody may see or change is decided below.
package users

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/accounts"
	"github.com/sandkasten/sandkasten/internal/accounts/browser"
	"github.com/sandkasten/sandkasten/internal/accounts/inspections"
	"github.com/sandkasten/sandkasten/internal/accounts/oidc"
	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/v1/contract"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/usage"
)

// Handlers are those of the routes.
type Handlers struct {
	Accounts *accounts.Accounts       // nil has none: all but Me is Unimplemented
	Meter    *usage.Meter             // nil has none: what is used is Unimplemented
	SignIns  *browser.SignIns         // nil has none: nobody signs in
	OIDC     *oidc.Provider           // signs users in, too; nil has none
	Looks    *inspections.Inspections // nil has none: nobody is told of anything
	Sessions *session.Sessions        // for what they use now; nil knows of nothing
	Home     string                   // where on the daemon a browser goes that the provider has sent back
}

// User is the contract's view of a user.
type User struct {
	Name        string    `json:"name" doc:"The owner of what the user makes." example:"alice"`
	Email       string    `json:"email,omitempty" example:"alice@example.org"`
	Role        string    `json:"role" enum:"user,admin" doc:"An admin with a key of scope admin sees the sessions of all, ends them, and changes users. What is in a session of another stays closed: see inspect." example:"user"`
	State       string    `json:"state" enum:"active,disabled,deleting" doc:"Only the keys of active users are valid. deleting stays until all that the user owns is removed." example:"active"`
	HasPassword bool      `json:"has_password"`
	Inspect     bool      `json:"inspect" doc:"Of an admin: may look into files, terminals and output of others, and make keys for them. Those are told (get-my-inspections)."`
	Images      string    `json:"images" enum:"none,pull,build" doc:"Of a user who is no admin: what images may be made of. Their names begin with the user's and a slash." example:"none"`
	Quota       *Quota    `json:"quota,omitempty" doc:"What the user may have otherwise than the configuration gives to all. Left out if that is nothing."`
	CreatedAt   time.Time `json:"created_at"`
}

func viewUser(u accounts.User) User {
	return User{
		Name: u.Name, Email: u.Email, Role: string(u.Role), State: string(u.State),
		HasPassword: u.PasswordHash != "", Inspect: u.Rights.Inspect, Images: cmp.Or(string(u.Rights.Images), "none"), Quota: viewQuota(u.Quota), CreatedAt: u.CreatedAt,
	}
}

// UserRequest is a user to make.
type UserRequest struct {
	Name     string `json:"name" minLength:"1" maxLength:"63" doc:"The owner of what the user makes. It never changes, and no owner of the configuration has it." example:"alice"`
	Email    string `json:"email,omitempty" maxLength:"254" example:"alice@example.org"`
	Role     string `json:"role,omitempty" enum:"user,admin" doc:"user if it is left out." example:"user"`
	Password string `json:"password,omitempty" minLength:"8" maxLength:"1024" doc:"None if it is left out. Nothing ever shows it again." example:"correct horse battery"`
}

// UserUpdateRequest is what to change of a user.
type UserUpdateRequest struct {
	Email    *string `json:"email,omitempty" maxLength:"254" doc:"Empty text takes it away." example:"alice@example.org"`
	Role     *string `json:"role,omitempty" enum:"user,admin" example:"user"`
	State    *string `json:"state,omitempty" enum:"active,disabled" doc:"disabled ends all requests and refuses all keys of the user." example:"disabled"`
	Password *string `json:"password,omitempty" maxLength:"1024" doc:"At least 8 characters. Empty text takes it away." example:"correct horse battery"`

	Inspect *bool   `json:"inspect,omitempty" doc:"Only by the daemon's own key, and only of admins: they may look into what others have, who are told." example:"true"`
	Images  *string `json:"images,omitempty" enum:"none,pull,build" doc:"Only by admins. pull also takes what the user's own sessions and snapshots have; steps of a build run as root on the daemon's host." example:"pull"`

	CurrentPassword string `json:"current_password,omitempty" maxLength:"1024" doc:"Of users who change their own e-mail address or password with a credential that ends, that another key made, or that may less than they do by signing in, and of those who have signed in and have a password." example:"correct horse"`

	Quota *QuotaRequest `json:"quota,omitempty" doc:"Only for admins. It holds at the next use."`
}

// Users is a list of them.
type Users struct {
	Users []User `json:"users" nullable:"false"`
}

// Path is what every route of one user takes.
type Path struct {
	Name string `path:"name" maxLength:"63" doc:"The user's name." example:"alice"`
}

type (
	// CreateInput is that of Create.
	CreateInput struct{ Body UserRequest }
	// UpdateInput is that of Update.
	UpdateInput struct {
		Path
		Body UserUpdateRequest
	}
	// UserOutput is one user.
	UserOutput struct{ Body User }
	// ListOutput is a list of users.
	ListOutput struct{ Body Users }
	// OKOutput is that of what is gone.
	OKOutput = contract.OKOutput
	// DeleteOutput is that of Delete: 202 while something of the user is left.
	DeleteOutput struct {
		Status int
		Body   contract.OK
	}
)

// Create makes a user.
func (h *Handlers) Create(ctx context.Context, in *CreateInput) (*UserOutput, error) {
	if err := h.checkEnabled(); err != nil {
		return nil, err
	}
	made, err := h.Accounts.CreateUser(ctx, api.Caller(ctx), accounts.UserRequest{
		Name: in.Body.Name, Email: in.Body.Email, Role: accounts.Role(in.Body.Role), Password: in.Body.Password,
	})
	if err != nil {
		return nil, err
	}
	api.Made(ctx, "user", made.Name)
	return &UserOutput{viewUser(made)}, nil
}

// List lists users.
func (h *Handlers) List(ctx context.Context, _ *struct{}) (*ListOutput, error) {
	if err := h.checkEnabled(); err != nil {
		return nil, err
	}
	all, err := h.Accounts.Users(ctx, api.Caller(ctx))
	if err != nil {
		return nil, err
	}
	out := &ListOutput{Users{make([]User, 0, len(all))}}
	for _, u := range all {
		out.Body.Users = append(out.Body.Users, viewUser(u))
	}
	return out, nil
}

// Get returns one user.
func (h *Handlers) Get(ctx context.Context, in *Path) (*UserOutput, error) {
	if err := h.checkEnabled(); err != nil {
		return nil, err
	}
	u, err := h.Accounts.GetUser(ctx, api.Caller(ctx), in.Name)
	if err != nil {
		return nil, err
	}
	return &UserOutput{viewUser(u)}, nil
}

// Update changes a user.
func (h *Handlers) Update(ctx context.Context, in *UpdateInput) (*UserOutput, error) {
	if err := h.checkEnabled(); err != nil {
		return nil, err
	}
	var made *accounts.ImageRight
	if in.Body.Images != nil {
		made = new(accounts.ImageRight(strings.TrimPrefix(*in.Body.Images, "none")))
	}
	u, err := h.Accounts.UpdateUser(ctx, api.Caller(ctx), in.Name, accounts.UserUpdate{
		Inspect: in.Body.Inspect, Images: made,
		Email: in.Body.Email, Role: (*accounts.Role)(in.Body.Role), State: (*accounts.State)(in.Body.State), Password: in.Body.Password,
		Quota: in.Body.Quota.change(), CurrentPassword: in.Body.CurrentPassword,
	})
	if err != nil {
		return nil, err
	}
	return &UserOutput{viewUser(u)}, nil
}

// Delete ends a user and all that the user owns.
func (h *Handlers) Delete(ctx context.Context, in *Path) (*DeleteOutput, error) {
	if err := h.checkEnabled(); err != nil {
		return nil, err
	}
	done, err := h.Accounts.DeleteUser(ctx, api.Caller(ctx), in.Name)
	if err != nil {
		return nil, err
	}
	status := http.StatusOK
	if !done {
		status = http.StatusAccepted
	}
	return &DeleteOutput{status, contract.Done().Body}, nil
}

func (h *Handlers) checkEnabled() error {
	if h.Accounts == nil {
		return errdefs.New(errdefs.Unimplemented, "this daemon has no users but those of its configuration")
	}
	return nil
}

// Me is who asks.
type Me struct {
	Owner    string `json:"owner" doc:"Whom sessions and everything else belong to that are made with this key." example:"alice"`
	Admin    bool   `json:"admin" doc:"The key sees and changes what is everybody's."`
	ReadOnly bool   `json:"read_only,omitempty" doc:"The key only looks: whatever changes something is refused."`
	User     *User  `json:"user,omitempty" doc:"Left out for an owner of the configuration."`
	Key      *Key   `json:"key,omitempty" doc:"Left out for a key of the configuration, and for who has signed in."`
}

// MeOutput is that of Me.
type MeOutput struct{ Body Me }

// Me says who asks.
func (h *Handlers) Me(ctx context.Context, _ *struct{}) (*MeOutput, error) {
	p := api.Caller(ctx)
	if h.Accounts == nil {
		return &MeOutput{Me{Owner: p.Owner, Admin: p.Has(auth.ScopeDaemon), ReadOnly: p.ReadOnly}}, nil
	}
	me, err := h.Accounts.Me(ctx, p)
	if err != nil {
		return nil, err
	}
	out := &MeOutput{Me{Owner: me.Owner, Admin: me.Admin, ReadOnly: p.ReadOnly}}
	if me.User != nil {
		u := viewUser(*me.User)
		out.Body.User = &u
	}
	if me.Key != nil {
		k := viewKey(*me.Key)
		out.Body.Key = &k
	}
	return out, nil
}
