package accounts

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/session/ids"
)

// UserRequest is a user to make.
type UserRequest struct {
	Name     string
	Email    string
	Role     Role   // "" is RoleUser
	Password string // "" is none

	SelfMade bool // by who is to be the user, and not by an admin who knows them
	Verified bool // a provider says that Email is the user's
}

// reserved are names that people take for those of who runs the daemon. An admin may give them.
var reserved = map[string]bool{
	"admin": true, "administrator": true, "anonymous": true, "daemon": true, "nobody": true, "operator": true, "root": true,
	"sandkasten": true, "security": true, "sudo": true, "support": true, "system": true,
}

// CreateUser makes a user, without a key. Only admins may.
func (a *Accounts) CreateUser(ctx context.Context, p auth.Principal, req UserRequest) (User, error) {
	c, err := a.callerOf(p)
	if err != nil {
		return User{}, err
	}
	if !c.admin {
		return User{}, errAdminsOnly("make users")
	}
	if err := c.lendsUser(req.Email, req.Password, req.Role); err != nil {
		return User{}, err
	}
	made := User{ID: ids.New(), Name: req.Name, Email: req.Email, Role: req.Role, State: Active, CreatedAt: time.Now().UTC().Truncate(time.Microsecond)}
	if made.Role == "" {
		made.Role = RoleUser
	}
	if !auth.IsOwner(req.Name) {
		return User{}, errdefs.Invalid("name", "must be %s", auth.OwnerRule)
	}
	if err := checkUser(made); err != nil {
		return User{}, err
	}
	if req.SelfMade && !req.Verified && a.opts.EmailsOpen && req.Email != "" {
		return User{}, errEmailOpens()
	}
	if made.PasswordHash, err = newPassword(ctx, req.Password); err != nil {
		return User{}, err
	}
	made.Rights.Unopened = req.Password == "" && !req.SelfMade && !a.emailOpens(made)
	a.changes.Lock()
	defer a.changes.Unlock()
	if err := a.checkRoom(req); err != nil {
		return User{}, err
	}
	if err := a.checkEmail(made); err != nil {
		return User{}, err
	}
	return a.putUser(ctx, made)
}

// lendsUser refuses c what a user signs in by, and the role admin. Empty is nothing.
func (c caller) lendsUser(email, password string, role Role) error {
	switch {
	case password != "":
		return c.lends("a password")
	case email != "":
		return c.lends("an e-mail address")
	case role == RoleAdmin:
		return c.lends("the role admin")
	}
	return nil
}

// checkRoom refuses another user of a name that is taken, or over the maximum.
func (a *Accounts) checkRoom(req UserRequest) error {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if other := a.users[req.Name]; other != nil && other.State == Deleting {
		return errDeleting(req.Name)
	}
	if a.users[req.Name] != nil || a.opts.Reserved(req.Name) || req.SelfMade && reserved[req.Name] {
		err := errdefs.New(errdefs.AlreadyExists, "the name %s is taken; choose another", req.Name)
		err.Field = "name"
		return err
	}
	if len(a.users) >= MaxUsers {
		return errdefs.New(errdefs.ResourceExhausted, "the maximum of %d users is reached; delete one", MaxUsers)
	}
	return nil
}

// checkEmail refuses a user the e-mail address of another: it signs in, and would be nobody's
// if two had it.
func (a *Accounts) checkEmail(u User) error {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if u.Email == "" || !slices.ContainsFunc(a.withEmail(u.Email), func(other *user) bool { return other.ID != u.ID }) {
		return nil
	}
	err := errdefs.New(errdefs.AlreadyExists, "another user has this e-mail address")
	err.Field = "email"
	return err
}

// putUser writes a user, and has it hold. The caller holds changes.
func (a *Accounts) putUser(ctx context.Context, u User) (User, error) {
	if err := a.opts.Store.PutUser(context.WithoutCancel(ctx), u); err != nil {
		return User{}, err
	}
	before := a.replaceUser(u)
	if before != nil && before.stamp() != u.stamp() {
		a.signIns.EndOf(context.WithoutCancel(ctx), u.ID)
	}
	a.opts.Changed(u.Name, "")
	return u, nil
}

// replaceUser has a user hold that is written, and returns the one before.
func (a *Accounts) replaceUser(u User) (before *user) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := &user{u}
	before = a.users[u.Name]
	a.users[u.Name] = now
	other := before != nil && (before.Role != u.Role || before.State != u.State || before.Rights.Inspect != u.Rights.Inspect)
	if other {
		a.cut(u.ID) // it may do other things from here on
	}
	for _, k := range a.own[u.ID] {
		k.user = now
		if other {
			a.cut(k.ID)
		}
	}
	return before
}

// Users returns the users whom p may know of, by name.
func (a *Accounts) Users(_ context.Context, p auth.Principal) ([]User, error) {
	c, err := a.callerOf(p)
	if err != nil {
		return nil, err
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	var found []User
	for _, u := range a.users {
		if c.sees(u) {
			found = append(found, u.User)
		}
	}
	slices.SortFunc(found, func(x, y User) int { return strings.Compare(x.Name, y.Name) })
	return found, nil
}

// GetUser returns a user. To all but admins other users do not exist.
func (a *Accounts) GetUser(_ context.Context, p auth.Principal, name string) (User, error) {
	c, err := a.callerOf(p)
	if err != nil {
		return User{}, err
	}
	u, err := a.find(c, name)
	if err != nil {
		return User{}, err
	}
	return u.User, nil
}

// UserUpdate is what to change of a user; nil leaves things as they are.
type UserUpdate struct {
	Email    *string // "" forgets it
	Role     *Role
	State    *State  // Active or Disabled
	Password *string // "" takes it away
	Quota    *QuotaChange
	Inspect  *bool       // only by the daemon's own key; it goes with the role admin
	Images   *ImageRight // only by admins

	// CurrentPassword is the one that the caller has now. It is asked for where the
	// caller changes how it signs in itself, and shows less than that gives.
	CurrentPassword string
}

// UpdateUser changes a user. Users change their own e-mail address and password, with
// the current password or a credential that may all that signing in gives and that lives
// as long; everything else is for admins, who cannot shut themselves out. A new role or
// state ends the user's requests under way, and these and a new password end the user's
// sign-ins.
func (a *Accounts) UpdateUser(ctx context.Context, p auth.Principal, name string, req UserUpdate) (User, error) {
	c, err := a.callerOf(p)
	if err != nil {
		return User{}, err
	}
	if _, err := a.find(c, name); err != nil {
		return User{}, err
	}
	if err := c.checkUpdate(name, req); err != nil {
		return User{}, err
	}
	if a.opts.EmailsOpen && !c.admin && value(req.Email) != "" {
		return User{}, errEmailOpens()
	}
	if err := a.checkOwn(ctx, c, name, req); err != nil {
		return User{}, err
	}
	var password string
	if req.Password != nil {
		if password, err = newPassword(ctx, *req.Password); err != nil {
			return User{}, err
		}
	}
	a.changes.Lock()
	defer a.changes.Unlock()
	found, err := a.find(c, name)
	if err != nil {
		return User{}, err
	}
	u := found.User
	if u.State == Deleting {
		return User{}, errDeleting(name)
	}
	u.set(req, password)
	if err := checkUser(u); err != nil {
		return User{}, err
	}
	if !strings.EqualFold(u.Email, found.Email) { // two may have one from before
		if err := a.checkEmail(u); err != nil {
			return User{}, err
		}
	}
	if u.State == Deleting {
		return User{}, errdefs.Invalid("state", "must be active or disabled")
	}
	if what := a.openedBy(req); what != "" {
		if err := a.opens(ctx, c, found.User, what); err != nil {
			return User{}, err
		}
	}
	u.Rights.Unopened = u.Rights.Unopened && !a.emailOpens(u)
	return a.putUser(ctx, u)
}

// emailOpens reports whether somebody signs in as u by the e-mail address.
func (a *Accounts) emailOpens(u User) bool { return a.opts.EmailsOpen && u.Email != "" }

// Adopt notes that a provider's subject signs in as a user from now on.
func (a *Accounts) Adopt(ctx context.Context, name string) error {
	a.changes.Lock()
	defer a.changes.Unlock()
	found, err := a.find(caller{admin: true}, name)
	if err != nil || !found.Rights.Unopened {
		return err
	}
	u := found.User
	u.Rights.Unopened = false
	_, err = a.putUser(ctx, u)
	return err
}

// set changes u as req says, which checkUpdate has let pass. password is the hash of the
// new one.
func (u *User) set(req UserUpdate, password string) {
	if value(req.Role) == RoleUser {
		u.Rights.Inspect = false
	}
	set(&u.Email, req.Email)
	set(&u.Role, req.Role)
	set(&u.State, req.State)
	set(&u.Rights.Inspect, req.Inspect)
	set(&u.Rights.Images, req.Images)
	req.Quota.apply(&u.Quota)
	if req.Password != nil {
		u.PasswordHash, u.Rights.Unopened = password, false
	}
}

// openedBy names what of an update signs somebody in as the user, or is "".
func (a *Accounts) openedBy(req UserUpdate) string {
	switch {
	case value(req.Password) != "":
		return "a password"
	case a.opts.EmailsOpen && value(req.Email) != "":
		return "an e-mail address"
	}
	return ""
}

// checkUpdate refuses what c may not change of a user that it may know of.
func (c caller) checkUpdate(name string, req UserUpdate) error {
	own := c.user != nil && c.user.Name == name
	switch {
	case !c.admin && (req.Role != nil || req.State != nil || req.Quota != nil || req.Inspect != nil || req.Images != nil):
		return errAdminsOnly("change roles, states, rights and quotas")
	case req.Inspect != nil && !c.operates():
		return errdefs.New(errdefs.PermissionDenied, "only the daemon's own key gives and takes the right to look into what others have")
	case !c.admin && c.key.Scope == ScopeRead:
		return errdefs.New(errdefs.PermissionDenied, "this key may not change its user")
	case own && (req.Role != nil || req.State != nil):
		return errdefs.New(errdefs.Conflict, "nobody changes their own role or state: use the key of another admin")
	case own:
		return nil // see checkOwn
	}
	return c.lendsUser(value(req.Email), value(req.Password), value(req.Role))
}

// checkOwn has c show that it may change how it signs in: a key that opens less, or for
// a shorter time, would else get by signing in what it has not.
func (a *Accounts) checkOwn(ctx context.Context, c caller, name string, req UserUpdate) error {
	own := c.user != nil && c.user.Name == name
	switch {
	case !own || req.Email == nil && req.Password == nil || protection.Off(protection.OwnPassword):
		return nil
	case req.CurrentPassword == "" && c.isWhole():
		return nil
	case req.CurrentPassword == "":
		err := errdefs.New(errdefs.PermissionDenied, "changing a password or an e-mail address asks for the current password here, in current_password: a credential that ends, or that may less than who signs in, is not enough. Without a password an admin sets one")
		err.Field = "current_password"
		return err
	}
	done, err := a.signIns.Guess(c.user.ID)
	if err != nil {
		return err
	}
	_, err = a.VerifyPassword(ctx, c.user.Name, req.CurrentPassword)
	done(err)
	if errdefs.Is(err, errdefs.Unauthenticated) {
		err := errdefs.New(errdefs.PermissionDenied, "the current password is another one")
		err.Field = "current_password"
		return err
	}
	return err
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

var emailForm = regexp.MustCompile(EmailPattern)

// checkUser refuses what no user may have.
func checkUser(u User) error {
	if len(u.Email) > MaxEmail || !emailForm.MatchString(u.Email) {
		return errdefs.Invalid("email", "must be an address of at most %d bytes, as alice@example.org", MaxEmail)
	}
	if u.Role != RoleUser && u.Role != RoleAdmin {
		return errdefs.Invalid("role", "must be user or admin")
	}
	if u.State != Active && u.State != Disabled && u.State != Deleting {
		return errdefs.Invalid("state", "must be active or disabled")
	}
	if err := u.Rights.check(u.Role); err != nil {
		return err
	}
	return u.Quota.check()
}

// errEmailOpens refuses somebody an e-mail address that nobody has verified, see
// Options.EmailsOpen.
func errEmailOpens() error {
	err := errdefs.New(errdefs.PermissionDenied, "an e-mail address signs in by OpenID Connect here (oidc.link_users), so that an admin sets it")
	err.Field = "email"
	return err
}

func errDeleting(name string) error {
	return errdefs.New(errdefs.Unavailable, "user %s is being deleted, and the name is free then; try again", name)
}
