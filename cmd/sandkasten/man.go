package main

import (
	"os"
	"path/filepath"

	"github.com/alecthomas/kong"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/man"
)

type manCmd struct {
	Dir string `required:"" placeholder:"DIR" help:"Directory for the pages, as /usr/local/share/man/man1. It is made if it is not there."`
}

func (manCmd) Help() string {
	return `Writes a page for sandkasten and one for each of its commands. They say what
--help says.

  sandkasten man --dir /usr/local/share/man/man1
  man sandkasten-run`
}

func (c manCmd) Run(_ *cli.App, parser *kong.Kong) error {
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return err
	}
	for name, page := range man.Pages(parser.Model, thisBuild().Version) {
		if err := os.WriteFile(filepath.Join(c.Dir, name), page, 0o644); err != nil {
			return err
		}
	}
	return nil
}
