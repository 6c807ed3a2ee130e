package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/sdk/go"
)

type portsCmd struct {
	cli.ListFlags
	Session string `arg:"" help:"Session: its name, its id or a prefix of the id."`
}

func (portsCmd) Help() string {
	return `Lists the TCP ports on which programs in a session listen. The URL is for HTTP and
needs the API key or a preview token.

  sandkasten ports $id
  sandkasten preview $id 3000
  sandkasten port-forward $id 3000`
}

func (c portsCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	ports, err := cl.Session(c.Session).ListPorts(ctx)
	if err != nil {
		return err
	}
	return c.Print(a, ports, portRows(ports), "Nothing listens in this session.")
}

func portRows(ports []sandkasten.Port) [][]string {
	rows := [][]string{{"PORT", "ADDRESS", "URL"}}
	for _, p := range ports {
		rows = append(rows, []string{strconv.Itoa(p.Port), p.Address, p.URL})
	}
	return rows
}

type previewCmd struct {
	cli.FormFlags
	TTL     cli.Seconds `name:"ttl" placeholder:"TIME" help:"How long it opens the port, such as 10m; by default an hour."`
	Session string      `arg:"" help:"Session: its name, its id or a prefix of the id."`
	Port    int         `arg:"" help:"Port on which a program in the session serves HTTP."`
}

func (previewCmd) Help() string {
	return `Prints an address with a token in it, which opens this port to everybody who has it,
in a browser or by curl, until its time is over or the session ends.

  sandkasten exec -d $id 'python3 -m http.server 3000'
  sandkasten preview $id 3000
  curl "$(sandkasten preview --ttl 10m $id 3000)"`
}

func (c previewCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	preview, err := cl.Session(c.Session).CreatePreview(ctx, c.Port, &sandkasten.PreviewOptions{TTL: c.TTL.Duration()})
	if err != nil {
		return err
	}
	if done, err := c.Done(a, preview); done || err != nil {
		return err
	}
	if _, err := fmt.Fprintln(a.Out, show.Printable(preview.URL)); err != nil {
		return err
	}
	a.Say("It opens port %d until %s.", preview.Port, preview.ExpiresAt.Local().Format(time.DateTime))
	return nil
}
