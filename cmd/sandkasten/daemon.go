package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/internal/daemon"
	"github.com/sandkasten/sandkasten/internal/heap"
	"github.com/sandkasten/sandkasten/internal/service"
)

type daemonCmd struct {
	Hint         bool `help:"Print a first session to try. This is the default on a terminal."`
	StopSessions bool `help:"Stop the sessions of all owners, keep their files, and exit. Use it before you remove the program."`
}

func (daemonCmd) Help() string {
	return `The daemon listens on the configured address and serves until a signal stops it.
Sessions survive it: the next daemon adopts them, even after kill -9. It needs
root, and logs to standard error.

  sandkasten daemon --config sandkasten.yaml

docs/configuration.md has every key of the file.`
}

func (c daemonCmd) Run(ctx context.Context, a *cli.App) (err error) {
	cfg, err := a.Configuration()
	if err != nil {
		return err
	}
	if c.StopSessions && daemon.NeverRan(cfg) {
		return nil
	}
	// From here on it is in cfg: children of the daemon need not see it.
	if err := os.Unsetenv("SANDKASTEN_API_KEY"); err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		// What lives is a few MB, so by default a collection would come every few
		// hundred requests and be felt by the slowest of them. Of a limit of ours the
		// rest is for what is not Go's heap.
		limit, _ := service.MemoryLimit("/")
		heap.Pace(limit / 4 * 3)
	}
	manager, err := service.FromEnviron()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, manager.Close()) }()
	// A log that is closed must not end us. To ignore the signal would have every
	// sandbox ignore it.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	out := daemon.NewLogWriter(a.Err)
	defer func() { err = errors.Join(err, out.Close()) }()
	d, err := daemon.New(ctx, cfg, daemon.Options{
		Version: thisBuild().Version,
		Service: manager,
		Log:     daemon.NewLog(cfg.Log, out),

		StopSessions: c.StopSessions,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if c.Hint || show.IsTerminal(a.Out) {
		keyFile := cfg.KeyFile()
		if cfg.APIKey != "" {
			keyFile = ""
		}
		if err := printHint(a.Out, self()+configFlag(a), d.URL(), d.FirstImage(ctx), keyFile); err != nil {
			return err
		}
	}
	return d.Run(ctx)
}

// configFlag is what a command needs to find the same configuration.
func configFlag(a *cli.App) string {
	if a.Config == "" {
		return ""
	}
	return " --config " + cli.Quote(a.Config)
}

// self is how the user called us.
func self() string {
	name := cli.Quote(os.Args[0])
	if _, ok := os.LookupEnv("SUDO_USER"); ok {
		return "sudo " + name
	}
	return name
}

func printHint(w io.Writer, sandkasten, url, image, keyFile string) error {
	key := "KEY=...   # api_key of the configuration"
	if keyFile != "" {
		key = fmt.Sprintf("KEY=$(sudo cat %s)", cli.Quote(keyFile))
	}
	first, missing := "", ""
	if image == "" {
		image, missing = "base", "There is no image yet; this makes one:\n\n  "+sandkasten+" image build base\n\n"
	} else {
		first = " (" + sandkasten + " image ls shows the images, and image jobs those that are being made)"
	}
	_, err := fmt.Fprintf(w, `
Sandkasten listens on %[2]s. %[5]sA first session, from another terminal%[6]s:

  %[1]s run %[3]s 'echo hello from $(hostname)'

or over HTTP:

  %[4]s
  api() { curl -s -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json' "$@"; }
  ID=$(api -d '{"image":"%[3]s"}' %[2]s/v1/sessions | sed 's/.*"id":"\([a-z0-9]*\)".*/\1/')
  api -d '{"cmd":"cd /tmp && x=1"}' %[2]s/v1/sessions/$ID/exec
  api -d '{"cmd":"pwd; echo $x"}' %[2]s/v1/sessions/$ID/exec
  api -X DELETE %[2]s/v1/sessions/$ID

The API is described at %[2]s/docs.
Ctrl-C ends the daemon. Its sessions go on and are there again at the next start.

`, sandkasten, url, image, key, missing, first)
	return err
}
