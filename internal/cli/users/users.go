// Package users is `sandkasten user` and `sandkasten key`: the commands of who may
// use a daemon.
package users

import (
	"context"
	"time"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// Cmd is `sandkasten user`.
type Cmd struct {
	Add  addCmd  `cmd:"" help:"Make a user and print the name, or a key."`
	Ls   lsCmd   `cmd:"" help:"List users."`
	Show showCmd `cmd:"" help:"Show a user with their own limits."`
	Set  setCmd  `cmd:"" help:"Change a user."`
	Rm   rmCmd   `cmd:"" help:"Delete users and all that they own."`

	Inspections inspectionsCmd `cmd:"" help:"List who looked into what is yours."`
}

// Help is what --help adds.
func (Cmd) Help() string {
	return `Users are made with the daemon's own key, or an admin's. What a user's keys make
belongs to the user.

  sandkasten user add alice --key
  sandkasten user set alice --disable
  sandkasten user set alice --images pull
  sandkasten user set root --inspect
  sandkasten user set alice --max-sessions 20 --session-seconds-per-month 720000
  sandkasten user rm alice`
}

type addCmd struct {
	Name     string `arg:"" help:"Name, of a-z, 0-9, '.', '_' and '-'."`
	Admin    bool   `help:"Make the user an admin."`
	Email    string `placeholder:"ADDRESS" help:"E-mail address."`
	Password bool   `help:"Ask for a password, or read it from standard input."`
	Key      bool   `help:"Make a key, too, and print it instead of the name."`
	cli.FormFlags
}

func (addCmd) Help() string {
	return `With --key the only output is the key, which nothing shows again. An admin's has
the scope admin.

  SANDKASTEN_API_KEY=$(sandkasten user add alice --key)

A password is for signing in with a browser. It is no argument because other users can
see those:

  sandkasten user add alice --password <password.txt`
}

// made is a user with a key.
type made struct {
	sandkasten.User

	Key *sandkasten.NewKey `json:"key,omitempty"`
}

func (c addCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	role, scope := "user", "run"
	if c.Admin {
		role, scope = "admin", "admin"
	}
	options := &sandkasten.UserOptions{Email: c.Email, Role: role}
	if c.Password {
		var err error
		if options.Password, err = readPassword(a, c.Name); err != nil {
			return err
		}
	}
	user, err := cl.CreateUser(ctx, c.Name, options)
	if err != nil {
		return err
	}
	out, id := made{User: *user}, user.Name
	if c.Key {
		if out.Key, err = cl.CreateKey(ctx, &sandkasten.KeyOptions{User: user.Name, Scope: scope}); err != nil {
			return err
		}
		id = out.Key.Text
	}
	if done, err := c.Done(a, out); done {
		return err
	}
	return a.PrintID(id)
}

type lsCmd struct{ cli.ListFlags }

func (c lsCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	list, err := cl.ListUsers(ctx)
	if err != nil {
		return err
	}
	rows := [][]string{{"NAME", "EMAIL", "ROLE", "STATE", "AGE"}}
	for _, u := range list {
		rows = append(rows, []string{u.Name, u.Email, u.Role, u.State, show.Span(time.Since(u.CreatedAt))})
	}
	return c.Print(a, list, rows, "No users. `sandkasten user add` makes one.")
}

type setCmd struct {
	Name       string  `arg:"" name:"user" help:"Name."`
	Email      *string `placeholder:"ADDRESS" help:"E-mail address; '' takes it away."`
	Role       *string `enum:"user,admin" placeholder:"ROLE" help:"Role: user or admin."`
	Password   bool    `xor:"password" help:"Ask for a new password, or read it from standard input. The user's browsers are signed out."`
	NoPassword bool    `xor:"password" help:"Take the password away."`
	Inspect    bool    `xor:"inspect" help:"Let the admin look into what others have, who are told. Only the daemon's own key may."`
	NoInspect  bool    `xor:"inspect" help:"Take that right away."`
	Images     *string `enum:"none,pull,build" placeholder:"WHAT" help:"What a user who is no admin may make images of: none, pull (registries, own sessions) or build (recipes, too, which run on the host)."`
	Current    bool    `name:"current-password" help:"Ask for the current password, too, or read it from the first line of standard input: for changing one's own."`
	Disable    bool    `xor:"state" help:"Refuse the user's keys and end their requests."`
	Enable     bool    `xor:"state" help:"Take the user's keys again."`
	quotaFlags
	cli.FormFlags
}

func (c setCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	update := &sandkasten.UserUpdate{Email: c.Email, Role: c.Role, Images: c.Images, Quota: c.update()}
	if c.Inspect || c.NoInspect {
		update.Inspect = &c.Inspect
	}
	if c.NoPassword {
		update.Password = new(string)
	}
	if c.Current {
		current, err := readCurrentPassword(a, c.Name)
		if err != nil {
			return err
		}
		update.CurrentPassword = current
	}
	if c.Password {
		password, err := readPassword(a, c.Name)
		if err != nil {
			return err
		}
		update.Password = &password
	}
	state := "active"
	if c.Disable {
		state = "disabled"
	}
	if c.Disable || c.Enable {
		update.State = &state
	}
	user, err := cl.UpdateUser(ctx, c.Name, update)
	if err != nil {
		return err
	}
	if done, err := c.Done(a, *user); done {
		return err
	}
	return a.PrintID(user.Name)
}

type inspectionsCmd struct{ cli.ListFlags }

func (inspectionsCmd) Help() string {
	return `An admin may have the right to look into files, terminals and output of others, and to
make keys in their names. Whoever uses it is listed here first. Keys and passwords that
the daemon's own key makes are listed, too.

  sandkasten user inspections`
}

func (c inspectionsCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	list, err := cl.ListInspections(ctx)
	if err != nil {
		return err
	}
	rows := [][]string{{"BY", "WHAT", "SESSION", "FIRST", "LAST"}}
	for _, i := range list {
		rows = append(rows, []string{i.By, i.What, i.SessionID, i.FirstAt.Local().Format(time.DateTime), i.LastAt.Local().Format(time.DateTime)})
	}
	return c.Print(a, list, rows, "Nobody has looked into what is yours.")
}

type rmCmd struct {
	Users []string `arg:"" name:"user" help:"Names."`
}

func (c rmCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	return a.RemoveEach(c.Users, func(name string) error {
		if err := cl.DeleteUser(ctx, name); err != nil {
			return err
		}
		if left, err := cl.GetUser(ctx, name); err == nil && left.State == "deleting" {
			a.Say("%s is being deleted: the daemon goes on removing what they own, and the name is free then", name)
		}
		return nil
	})
}
