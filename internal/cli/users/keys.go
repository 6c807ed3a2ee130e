package users

import (
	"context"
	"time"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// KeyCmd is `sandkasten key`.
type KeyCmd struct {
	Create createKeyCmd `cmd:"" help:"Make an API key and print it."`
	Ls     lsKeysCmd    `cmd:"" help:"List API keys, without what opens them."`
	Revoke revokeCmd    `cmd:"" help:"End API keys and those that they have made."`
}

// Help is what --help adds.
func (KeyCmd) Help() string {
	return `The keys of users. Those of the daemon's configuration are not among them.

  sandkasten key create --user alice --name laptop --expires 30d
  sandkasten key ls
  sandkasten key revoke f5q2bz7lq4m3k5n6p7r2s3t4u5`
}

type createKeyCmd struct {
	Name    string   `help:"Name, for people."`
	Scope   string   `enum:"read,run,admin" default:"run" placeholder:"SCOPE" help:"What it may: read, run or admin."`
	Expires cli.Span `placeholder:"TIME" help:"Time until it ends, such as 12h or 30d."`
	User    string   `placeholder:"NAME" help:"Whose it is, for admins."`
	cli.FormFlags
}

func (createKeyCmd) Help() string {
	return `The only output is the key, which nothing shows again. A key that a user's key makes
may do no more, lives no longer and is revoked with it.

A key opens what its user has. Every admin makes a user's first one; for later ones the
admin needs the right to look into what others have. The user is told of each:
sandkasten user inspections.`
}

func (c createKeyCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	key, err := cl.CreateKey(ctx, &sandkasten.KeyOptions{User: c.User, Name: c.Name, Scope: c.Scope, TTL: c.Expires.Duration()})
	if err != nil {
		return err
	}
	if done, err := c.Done(a, *key); done {
		return err
	}
	return a.PrintID(key.Text)
}

type lsKeysCmd struct {
	User string `placeholder:"NAME" help:"Only those of this user."`
	cli.ListFlags
}

func (c lsKeysCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	list, err := cl.ListKeys(ctx, c.User)
	if err != nil {
		return err
	}
	return c.Print(a, list, keyRows(list, time.Now()), "No keys. `sandkasten key create` makes one.")
}

func keyRows(list []sandkasten.Key, now time.Time) [][]string {
	rows := [][]string{{"ID", "USER", "NAME", "SCOPE", "STATE", "ENDS IN", "USED"}}
	for _, k := range list {
		state, ends, used := "valid", "", ""
		if k.ExpiresAt != nil {
			ends = show.Span(k.ExpiresAt.Sub(now))
			if !now.Before(*k.ExpiresAt) {
				state, ends = "expired", ""
			}
		}
		if k.RevokedAt != nil {
			state, ends = "revoked", ""
		}
		if k.LastUsedAt != nil {
			used = show.Span(now.Sub(*k.LastUsedAt))
		}
		rows = append(rows, []string{k.ID, k.User, k.Name, k.Scope, state, ends, used})
	}
	return rows
}

type revokeCmd struct {
	Keys []string `arg:"" name:"key" help:"Ids of keys."`
}

func (c revokeCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	return a.RemoveEach(c.Keys, func(id string) error { return cl.RevokeKey(ctx, id) })
}
