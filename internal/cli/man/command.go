package man

import (
	"os"
	"path/filepath"

	"github.com/alecthomas/kong"
)

// Cmd writes the pages of the program that it is a command of.
type Cmd struct {
	Dir string `required:"" placeholder:"DIR" help:"Directory for the pages, such as /usr/local/share/man/man1. It is made if missing."`
}

// Help is what `man --help` says.
func (Cmd) Help() string {
	return `Writes a page for sandkasten and one for each command, with the text of --help.

  sandkasten man --dir /usr/local/share/man/man1
  man sandkasten-run`
}

// Run replaces pages that are there.
func (c Cmd) Run(parser *kong.Kong) error {
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return err
	}
	for name, page := range Pages(parser.Model) {
		if err := os.WriteFile(filepath.Join(c.Dir, name), page, 0o644); err != nil {
			return err
		}
	}
	return nil
}
