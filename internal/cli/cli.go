// Package cli is what the subcommands of sandkasten have in common: the streams
// and flags they work with, the client of the daemon that the user means, and
// how a command ends. The commands themselves are in cmd/sandkasten and in
// packages below this one.
package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/drivers"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// Flags are those of every subcommand.
type Flags struct {
	Config string `placeholder:"FILE" env:"SANDKASTEN_CONFIG" help:"Configuration file."`
	URL    string `name:"url" placeholder:"URL" env:"SANDKASTEN_URL" help:"URL of the daemon, such as http://127.0.0.1:8787. By default the one of the configuration."`
	APIKey string `name:"api-key" placeholder:"KEY" env:"SANDKASTEN_API_KEY" help:"Key for the daemon. Prefer the variable: other users can see flags."`
}

// App is what every subcommand works with.
type App struct {
	In      *os.File
	Out     *os.File
	Err     io.Writer
	Environ []string // of this process, as os.Environ has it
	Version string   // of this program
	Flags

	HasFlag func(name string) bool // of the command that runs; nil is none
}

// Say writes a line for people to standard error.
func (a *App) Say(format string, args ...any) {
	// Nobody can be told that standard error is gone.
	fmt.Fprintf(a.Err, format+"\n", args...) //nolint:errcheck // see above
}

// Configuration reads the file that --config names, or the system's.
func (a *App) Configuration() (config.Config, error) {
	return config.Load(a.ConfigFile(), a.Environ, drivers.Names())
}

// ConfigFile is the one to read, or empty if there is none.
func (a *App) ConfigFile() string {
	if a.Config != "" {
		return a.Config
	}
	if _, err := os.Stat(config.SystemFile); err == nil {
		return config.SystemFile
	}
	return ""
}

// noKey is sent where none is known. Whatever is wrong with a key, a daemon's
// answer is the same.
const noKey = "none"

// Client is of the daemon that the user means. It repeats no request: whoever sits
// at a terminal is told at once, and knows best.
func (a *App) Client() (*sandkasten.Client, error) {
	return a.ClientWith(sandkasten.Options{MaxRetries: -1})
}

// ClientWith is of the same daemon, with options of one's own but for its address and
// its key.
func (a *App) ClientWith(o sandkasten.Options) (*sandkasten.Client, error) {
	url, key, err := a.daemonOf()
	if err != nil {
		return nil, err
	}
	o.URL, o.APIKey = url, cmp.Or(key, noKey)
	cl, err := sandkasten.New(o)
	if err != nil {
		return nil, Wrong("%w", err)
	}
	return cl, nil
}

// Key is the API key that the clients have, or empty where there is none.
func (a *App) Key() (string, error) {
	_, key, err := a.daemonOf()
	return key, err
}

// daemonOf is the daemon of --url, or the configuration's. The configuration's
// key goes to no other daemon than its own.
func (a *App) daemonOf() (url, key string, err error) {
	url, key = a.URL, a.APIKey
	if url != "" && key != "" {
		return url, key, nil
	}
	c, err := a.Configuration()
	if err != nil {
		return "", "", err
	}
	own := url == "" || strings.TrimSuffix(url, "/") == c.URL()
	if url == "" {
		url = c.URL()
	}
	if key == "" && own {
		key, err = storedKey(c)
	}
	return url, key, err
}

// storedKey is the key of the daemon that works with c. Without one the
// daemon answers that it needs one, which tells more than we could.
func storedKey(c config.Config) (string, error) {
	if c.APIKey != "" {
		return c.APIKey, nil
	}
	data, err := os.ReadFile(c.KeyFile())
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", nil
	case errors.Is(err, os.ErrPermission):
		return "", fmt.Errorf("the key in %s is for its owner only: run this as root, or set SANDKASTEN_API_KEY", c.KeyFile())
	case err != nil:
		return "", fmt.Errorf("read the daemon's key: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}
