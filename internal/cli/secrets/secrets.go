// Package secrets is `sandkasten secret`: the commands that store credentials for
// the network of sessions.
package secrets

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// Cmd is `sandkasten secret`.
type Cmd struct {
	Set setCmd `cmd:"" help:"Store a secret and print its name."`
	Ls  lsCmd  `cmd:"" help:"List secrets, without their values."`
	Rm  rmCmd  `cmd:"" help:"Remove secrets."`
}

// Help is what --help adds.
func (Cmd) Help() string {
	return `A secret is a credential that programs in a session use and never see: the daemon
sends it for them, to the hosts that may have it. Nothing shows its value again.

  sandkasten secret set github --host api.github.com --header Authorization
  sandkasten secret ls
  sandkasten secret rm github`
}

type setCmd struct {
	Name   string   `arg:"" help:"Name, of a-z, A-Z, 0-9, '.', '_' and '-'."`
	Host   []string `sep:"none" required:"" placeholder:"HOST" help:"A host that gets the value, or all below a domain: '*.example.org'. Repeatable."`
	Header string   `xor:"place" required:"" placeholder:"NAME" help:"Header of a request that has the value."`
	Query  string   `xor:"place" required:"" placeholder:"NAME" help:"Or the parameter of its query."`
	Shared bool     `help:"Let sessions of every key refer to it. Only with the daemon's own key."`
	File   string   `type:"existingfile" placeholder:"FILE" help:"Read the value from this file."`
	cli.FormFlags
}

func (setCmd) Help() string {
	return `Reads the value from standard input, without a newline at its end, or asks for it on
a terminal. It is no argument because other users can see those. A header's value has
its scheme:

  echo "Bearer $TOKEN" | sandkasten secret set github --host api.github.com --header Authorization
  sandkasten secret set maps --host maps.example.org --query key --file key.txt`
}

func (c setCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	value, err := c.value(a)
	if err != nil {
		return err
	}
	s, err := cl.SetSecret(ctx, c.Name, &sandkasten.SecretOptions{Hosts: c.Host, Header: c.Header, Query: c.Query, Value: value, Shared: c.Shared})
	if err != nil {
		return err
	}
	if done, err := c.Done(a, *s); done {
		return err
	}
	return a.PrintID(s.Name)
}

// maxValue is more than a value may have.
const maxValue = 64 << 10

// value is what the file, the user or standard input says.
func (c setCmd) value(a *cli.App) (string, error) {
	switch {
	case c.File != "":
		f, err := os.Open(c.File)
		if err != nil {
			return "", err
		}
		value, err := readValue(f)
		return value, errors.Join(err, f.Close())
	case show.IsTerminal(a.In):
		return askValue(a, c.Name)
	}
	return readValue(a.In)
}

func readValue(r io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxValue+1))
	if err != nil {
		return "", err
	}
	if len(text) > maxValue {
		return "", cli.Wrong("the value has more than %d bytes", maxValue)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"), nil
}

// maxTyped is what a terminal takes of a line. It drops the rest.
const maxTyped = 4096

// askValue asks for the value and does not show it. The terminal is raw meanwhile, so
// that an interrupt ends the reading instead of leaving it to wait without an echo.
func askValue(a *cli.App, name string) (value string, err error) {
	state, err := term.MakeRaw(int(a.In.Fd()))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, term.Restore(int(a.In.Fd()), state)) }()
	screen := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{a.In, a.Err}, "")
	value, err = screen.ReadPassword("Value of " + show.Printable(name) + ": ")
	switch {
	case errors.Is(err, io.EOF):
		return "", errors.New("no value was given")
	case err != nil:
		return "", err
	case len(value) >= maxTyped:
		return "", cli.Wrong("the value is too long for a terminal; use --file")
	}
	return value, nil
}

type lsCmd struct{ cli.ListFlags }

func (c lsCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	list, err := cl.ListSecrets(ctx)
	if err != nil {
		return err
	}
	return c.Print(a, list, secretRows(list, time.Now()), "No secrets. `sandkasten secret set` stores one.")
}

func secretRows(list []sandkasten.Secret, now time.Time) [][]string {
	rows := [][]string{{"NAME", "HOSTS", "PLACE", "SHARED", "SET"}}
	for _, s := range list {
		place, shared := "header "+s.Header, ""
		if s.Header == "" {
			place = "query " + s.Query
		}
		if s.Shared {
			shared = "yes"
		}
		rows = append(rows, []string{s.Name, strings.Join(s.Hosts, ","), place, shared, show.Span(now.Sub(s.UpdatedAt))})
	}
	return rows
}

type rmCmd struct {
	Secrets []string `arg:"" name:"secret" help:"Secret names."`
}

func (c rmCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	return a.RemoveEach(c.Secrets, func(name string) error { return cl.DeleteSecret(ctx, name) })
}
