// Package networks is `sandkasten network`: the commands that show and change what a
// session may reach, and those flags of other commands that say it.
package networks

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// Cmd is `sandkasten network`.
type Cmd struct {
	Show  showCmd  `cmd:"" help:"Show what a session may reach."`
	Set   setCmd   `cmd:"" help:"Change what a session may reach."`
	Allow allowCmd `cmd:"" help:"Let a session reach more."`
	Log   logCmd   `cmd:"" help:"Show what a session reached, and what was refused."`
}

// Help is what --help adds.
func (Cmd) Help() string {
	return `A session reaches nothing unless its policy says otherwise. The host's own
addresses and metadata services are never reached. Changes hold at once.

  id=$(sandkasten create python --allow @pip)
  sandkasten exec $id -- curl -sS https://files.example.org
  sandkasten network log $id --denied
  sandkasten network allow $id files.example.org
  sandkasten network set $id --network none`
}

type showCmd struct {
	cli.FormFlags
	Session string `arg:"" help:"Session: its name, its id or a prefix of the id."`
}

func (showCmd) Help() string {
	return `The values of secrets are never shown.

  sandkasten network show $id
  sandkasten network show --format '{{join .Allow " "}}' $id`
}

func (c showCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	p, err := cl.Session(c.Session).Network(ctx)
	if err != nil {
		return err
	}
	if done, err := c.Done(a, p); done || err != nil {
		return err
	}
	return show.Table(a.Out, policyRows(p))
}

// policyRows are what a policy says, a line for each thing.
func policyRows(p sandkasten.NetworkPolicy) [][]string {
	rows := [][]string{{"mode", p.Mode}}
	for _, list := range []struct {
		name    string
		entries []string
	}{{"allow", p.Allow}, {"deny", p.Deny}} {
		name := list.name
		for _, entry := range list.entries {
			rows = append(rows, []string{name, entry})
			name = ""
		}
	}
	for _, limit := range []struct {
		name  string
		value int
		unit  string
	}{
		{"rate", p.MaxMbit, " Mbit/s"},
		{"connections", p.MaxConnections, " at once"},
		{"new connections", p.ConnectionsPerSecond, " per second"},
		{"volume", p.MaxMB, " MiB"},
	} {
		if limit.value > 0 {
			rows = append(rows, []string{limit.name, strconv.Itoa(limit.value) + limit.unit})
		}
	}
	for _, s := range p.Secrets {
		rows = append(rows, []string{"secret " + s.Name, secretLine(s)})
	}
	return rows
}

// secretLine says who gets a secret, and where.
func secretLine(s sandkasten.NetworkSecret) string {
	place := "header " + s.Header
	if s.Query != "" {
		place = "parameter " + s.Query
	}
	line := place + " to " + strings.Join(s.Hosts, ", ")
	if s.Stored != "" {
		line += ", stored as " + s.Stored
	}
	return line
}

type setCmd struct {
	Flags
	cli.FormFlags

	NoSecret []string `sep:"none" placeholder:"NAME" help:"Remove this secret. Repeatable."`
	Session  string   `arg:"" help:"Session: its name, its id or a prefix of the id."`
}

func (setCmd) Help() string {
	return `What has no flag stays. --allow and --deny replace the whole list, an empty entry
empties it; "network allow" adds to it. --secret adds a secret or replaces the one of
its name, which keeps its value if none is given. Connections that the new policy
does not allow are cut.

  sandkasten network set $id --network internet --deny '*.ads.example.org'
  sandkasten network set $id --allow @pip --allow api.example.org:8443
  sandkasten network set $id --max-mbit 10 --deny ''
  sandkasten network set $id --secret TOKEN,host=api.example.org,header=Authorization,file=token
  sandkasten network set $id --no-secret TOKEN

Programs send a placeholder, which becomes the value on its way to one of the secret's
hosts; the policy has to allow those. Give secrets when a session is made: then its
commands have the placeholder in the variable of the name, and the certificates that
they need. Of those that are added later they know nothing.`
}

func (c setCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	if !c.given() && c.NoSecret == nil {
		return cli.Wrong("name what is to change; `sandkasten network set --help` lists the flags")
	}
	s := cl.Session(c.Session)
	now, err := s.Network(ctx)
	if err != nil {
		return err
	}
	next := c.change(now)
	if next.Secrets, err = c.secrets(a, now.Secrets); err != nil {
		return err
	}
	p, err := s.SetNetwork(ctx, next)
	if err != nil {
		return err
	}
	_, err = c.Done(a, p)
	return err
}

// secrets are a session's with what the flags say, or nil if they say nothing.
func (c setCmd) secrets(a *cli.App, now []sandkasten.NetworkSecret) ([]sandkasten.NetworkSecret, error) {
	if c.Secret == nil && c.NoSecret == nil {
		return nil, nil
	}
	next := append([]sandkasten.NetworkSecret{}, now...)
	find := func(name string) int {
		return slices.IndexFunc(next, func(s sandkasten.NetworkSecret) bool { return s.Name == name })
	}
	for _, name := range c.NoSecret {
		i := find(name)
		if i < 0 {
			return nil, cli.Wrong("there is no secret %s; `sandkasten network show` lists them", show.Printable(name))
		}
		next = slices.Delete(next, i, i+1)
	}
	for _, spec := range c.Secret {
		i := find(spec.shape.Name)
		if i < 0 && !spec.hasValue() {
			return nil, spec.lacksValue()
		}
		secret, err := spec.secret(a)
		if err != nil {
			return nil, err
		}
		if i < 0 {
			next = append(next, secret)
		} else {
			next[i] = secret
		}
	}
	return next, nil
}

type allowCmd struct {
	cli.FormFlags
	Session string   `arg:"" help:"Session: its name, its id or a prefix of the id."`
	Entries []string `arg:"" name:"entry" help:"Hosts, *.domains, addresses, CIDRs or groups such as @pip, each with :PORT or :PORT-PORT if wanted."`
}

func (allowCmd) Help() string {
	return `Names without a port are for the ports 80 and 443, addresses for all. A session that
reached nothing then reaches what is named here.

  sandkasten network allow $id packages.example.net files.example.net
  sandkasten network allow $id @npm git.example.org:22 198.51.100.0/24`
}

func (c allowCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	p, err := cl.Session(c.Session).AllowNetwork(ctx, c.Entries...)
	if err != nil {
		return err
	}
	_, err = c.Done(a, p)
	return err
}
