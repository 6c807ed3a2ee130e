// Command sandkasten-wsl keeps a daemon in WSL2 from Windows: it installs,
// starts and stops it and shows its state and log. What it does is
// internal/wsl's; see docs/wsl.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/alecthomas/kong"

	"github.com/sandkasten/sandkasten/internal/wsl"
)

type commands struct {
	Wsl          string `help:"Path of wsl.exe." default:"wsl.exe"`
	Distribution string `help:"Distribution that the daemon runs in." default:"Debian" short:"d"`
	URL          string `help:"Where the daemon is reached." default:"http://127.0.0.1:8787"`

	Install installCmd `cmd:"" help:"Make sure of the distribution and put the daemon's program into it."`
	Start   startCmd   `cmd:"" help:"Start the daemon and wait until it is ready."`
	Stop    stopCmd    `cmd:"" help:"Stop the daemon."`
	Status  statusCmd  `cmd:"" help:"Show whether distribution and daemon are there."`
	Logs    logsCmd    `cmd:"" help:"Show the daemon's log."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "sandkasten-wsl:", err)
		os.Exit(1)
	}
}

// run is the whole program.
func run(ctx context.Context, out io.Writer, args []string) error {
	var flags commands
	parser, err := kong.New(&flags,
		kong.Name("sandkasten-wsl"),
		kong.Description("Keeps a Sandkasten daemon in WSL2."),
		kong.Writers(out, os.Stderr),
		kong.BindTo(ctx, (*context.Context)(nil)),
	)
	if err != nil {
		return err
	}
	chosen, err := parser.Parse(args)
	if err != nil {
		return err
	}
	return chosen.Run(wsl.Host{Exe: flags.Wsl, Distribution: flags.Distribution, URL: flags.URL, Out: out})
}

type installCmd struct {
	Binary string `help:"The program sandkasten, built for Linux. Without it, the file sandkasten beside this program." placeholder:"FILE"`
}

func (c installCmd) Run(ctx context.Context, h wsl.Host) error {
	name := c.Binary
	if name == "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		name = filepath.Join(filepath.Dir(self), "sandkasten")
	}
	binary, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("the program for Linux: %w; say where it is with --binary", err)
	}
	defer binary.Close()
	if err := h.Ensure(ctx); err != nil {
		return err
	}
	return h.Install(ctx, binary)
}

type startCmd struct{}

func (startCmd) Run(ctx context.Context, h wsl.Host) error {
	began, said := time.Now(), "is running already at %s\n"
	switch err := h.Start(ctx); {
	case err == nil:
		said = "ready at %s after " + time.Since(began).Round(100*time.Millisecond).String() + "\n"
	case !errors.Is(err, wsl.ErrRunning):
		return err
	}
	_, err := fmt.Fprintf(h.Out, said, h.URL)
	return err
}

type stopCmd struct{}

func (stopCmd) Run(ctx context.Context, h wsl.Host) error { return h.Stop(ctx) }

type statusCmd struct{}

func (statusCmd) Run(ctx context.Context, h wsl.Host) error { return h.Status(ctx) }

type logsCmd struct {
	Lines  int  `help:"How many of the last lines." short:"n" default:"100"`
	Follow bool `help:"Go on until Ctrl+C." short:"f"`
}

func (c logsCmd) Run(ctx context.Context, h wsl.Host) error { return h.Logs(ctx, c.Lines, c.Follow) }
