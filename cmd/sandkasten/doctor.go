package main

import (
	"context"
	"fmt"
	"io"

	"github.com/sandkasten/sandkasten/internal/daemon"
	"github.com/sandkasten/sandkasten/internal/doctor"
)

type doctorCmd struct {
	JSON   bool `name:"json" help:"Print JSON."`
	Strict bool `help:"Exit with 1 on warnings too."`
}

func (doctorCmd) Help() string {
	return `Looks at the kernel, cgroups, disk, limits and tools, and tries the driver. It
exits with 1 if the daemon would not start here. Run it as root, with the
daemon's configuration.

  sandkasten doctor --config sandkasten.yaml`
}

func (c doctorCmd) Run(ctx context.Context, a *app) error {
	cfg, err := a.configuration()
	if err != nil {
		return err
	}
	findings := daemon.Examine(ctx, cfg)
	if c.JSON {
		err = printJSON(a.out, findings)
	} else {
		err = printFindings(a.out, findings)
	}
	if err != nil {
		return err
	}
	worst := doctor.Worst(findings)
	if worst == doctor.Fail || c.Strict && worst == doctor.Warn {
		return codeError(exitFailed)
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
		if _, err := fmt.Fprintf(w, "%-4s  %-*s  %s\n", f.Status, width, f.Check, printable(f.Found)); err != nil {
			return err
		}
		if f.Mend == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "      %-*s  -> %s\n", width, "", printable(f.Mend)); err != nil {
			return err
		}
	}
	return nil
}
