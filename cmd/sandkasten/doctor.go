package main

import (
	"context"
	"fmt"
	"io"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/internal/doctor"
	"github.com/sandkasten/sandkasten/internal/hostcheck"
)

type doctorCmd struct {
	JSON   bool `name:"json" help:"Print JSON."`
	Strict bool `help:"Also exit with 1 on warnings."`
}

func (doctorCmd) Help() string {
	return `Checks the kernel, cgroups, disk, limits and tools, and tries the driver. It exits
with 1 if the daemon would not start on this host. Run it as root, with the
daemon's configuration.

  sandkasten doctor --config sandkasten.yaml`
}

func (c doctorCmd) Run(ctx context.Context, a *cli.App) error {
	cfg, err := a.Configuration()
	if err != nil {
		return err
	}
	findings := hostcheck.Examine(ctx, cfg)
	if c.JSON {
		err = show.JSON(a.Out, findings)
	} else {
		err = printFindings(a.Out, findings)
	}
	if err != nil {
		return err
	}
	worst := doctor.Worst(findings)
	if worst == doctor.Fail || c.Strict && worst == doctor.Warn {
		return cli.CodeError(cli.ExitFailed)
	}
	return nil
}

// printFindings puts what has to be done below each line, where it can be
// copied.
func printFindings(w io.Writer, findings []doctor.Finding) error {
	width := 0
	for _, f := range findings {
		width = max(width, len(f.Check))
	}
	for _, f := range findings {
		if _, err := fmt.Fprintf(w, "%-4s  %-*s  %s\n", f.Status, width, f.Check, show.Printable(f.Found)); err != nil {
			return err
		}
		if f.Mend == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "      %-*s  -> %s\n", width, "", show.Printable(f.Mend)); err != nil {
			return err
		}
	}
	return nil
}
