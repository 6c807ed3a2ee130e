package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/sandkasten/sandkasten/internal/client"
	"github.com/sandkasten/sandkasten/internal/config"
)

// app is what every subcommand works with.
type app struct {
	in      *os.File
	out     *os.File
	err     io.Writer
	environ []string
	flags   *cli
}

// say writes a line for people to standard error.
func (a *app) say(format string, args ...any) {
	// Nobody can be told that standard error is gone.
	fmt.Fprintf(a.err, format+"\n", args...) //nolint:errcheck // see above
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// configuration reads the file that --config names, or the system's.
func (a *app) configuration() (config.Config, error) {
	return config.Load(a.configFile(), a.environ)
}

func (a *app) configFile() string {
	if a.flags.Config != "" {
		return a.flags.Config
	}
	if _, err := os.Stat(config.SystemFile); err == nil {
		return config.SystemFile
	}
	return ""
}

// client is of the daemon that the user means.
func (a *app) client() (*client.Client, error) {
	url, key, err := a.daemonOf()
	if err != nil {
		return nil, err
	}
	return client.New(url, key)
}

// daemonOf is the daemon of --url, or the configuration's. The configuration's
// key goes to no other daemon than its own.
func (a *app) daemonOf() (url, key string, err error) {
	url, key = a.flags.URL, a.flags.APIKey
	if url != "" && key != "" {
		return url, key, nil
	}
	c, err := a.configuration()
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
