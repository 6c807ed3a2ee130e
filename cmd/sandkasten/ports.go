package main

import (
	"context"
	"strconv"

	"github.com/sandkasten/sandkasten/internal/cli"
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
