package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/drivers"
)

// InitCmd writes the configuration with all defaults.
type InitCmd struct {
	Force bool `help:"Replace an existing file."`
}

// Help is what `init --help` says.
func (InitCmd) Help() string {
	return `Writes the file that the daemon reads: the one of --config, of SANDKASTEN_CONFIG,
or ` + config.SystemFile + `. It has every key with its meaning and its
default, so it changes nothing until you edit it. Only its owner can read it,
because it may contain keys.

  sandkasten init
  sandkasten init --config ./sandkasten.yaml`
}

// Run refuses to replace a file, unless it is forced to.
func (c InitCmd) Run(a *App) error {
	file := a.Config
	if file == "" {
		file = config.SystemFile
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := writeWhole(file, config.Sample(drivers.Names()), c.Force); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%s is there already: --force replaces it, --config names another", file)
		}
		return err
	}
	a.Say("Wrote %s. `sandkasten doctor` checks this host, `sandkasten daemon` starts.", file)
	return nil
}

// writeWhole makes a file of mode 0600, which is whole when it has its name.
// One that is there is replaced, or else an fs.ErrExist.
func writeWhole(file, text string, replace bool) (err error) {
	f, err := os.CreateTemp(filepath.Dir(file), ".sandkasten-*")
	if err != nil {
		return err
	}
	defer func() {
		if gone := os.Remove(f.Name()); !errors.Is(gone, fs.ErrNotExist) { // it may have been renamed
			err = errors.Join(err, gone)
		}
	}()
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if replace {
		return os.Rename(f.Name(), file)
	}
	return os.Link(f.Name(), file)
}
