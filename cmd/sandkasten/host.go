package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/sdk/go"
)

type hostCmd struct {
	History  hostHistoryCmd  `cmd:"" help:"Show how full the daemon's host was, and what the daemon did."`
	Findings hostFindingsCmd `cmd:"" help:"Show what is wrong with the daemon's host, and what mends it."`
}

func (hostCmd) Help() string {
	return `For admins. Unlike sandkasten doctor and sandkasten fsck these ask the daemon, also that
of another host.

  sandkasten host history --since 1h
  sandkasten host findings`
}

type hostHistoryCmd struct {
	cli.FormFlags
	Since time.Duration `default:"10m" placeholder:"TIME" help:"From then on, such as 1h or a day at most: a line every 10 seconds of the last hour, or each minute."`
}

func (c hostHistoryCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	history, err := cl.HostHistory(ctx, &sandkasten.StatsHistoryOptions{Since: time.Now().Add(-c.Since)})
	if err != nil {
		return err
	}
	if done, err := c.Done(a, history); done {
		return err
	}
	if len(history.Samples) == 0 {
		a.Say("Nothing was recorded since then: the daemon records every ten seconds while it runs.")
		return nil
	}
	return show.Table(a.Out, hostRows(history.Samples))
}

// hostRows has a dash for percentiles of nothing.
func hostRows(samples []sandkasten.HostSample) [][]string {
	rows := [][]string{{"TIME", "CPU", "OF", "MEMORY", "OF", "DISK", "OF", "RUNNING", "READY", "CREATES/MIN", "P50 MS", "P99 MS", "EXECS", "P50 MS", "P99 MS", "ERRORS"}}
	ms := func(value float64, of int64) string {
		if of == 0 {
			return "-"
		}
		return fmt.Sprintf("%.1f", value)
	}
	for _, s := range samples {
		perMinute := 0.0
		if s.Seconds > 0 {
			perMinute = float64(s.Creates) * 60 / s.Seconds
		}
		rows = append(rows, []string{
			s.At.Local().Format(time.TimeOnly),
			fmt.Sprintf("%.2f", s.CPUUsed), strconv.Itoa(s.CPULimit),
			show.Size(s.MemoryBytes), show.Size(s.MemoryLimit), show.Size(s.DiskBytes), show.Size(s.DiskLimit),
			strconv.Itoa(s.Sessions["running"]), fmt.Sprintf("%d/%d", s.PoolReady, s.PoolWanted),
			fmt.Sprintf("%.0f", perMinute), ms(s.CreateP50MS, s.Creates), ms(s.CreateP99MS, s.Creates),
			strconv.FormatInt(s.Execs, 10), ms(s.ExecP50MS, s.Execs), ms(s.ExecP99MS, s.Execs),
			strconv.FormatInt(s.RequestErrors, 10),
		})
	}
	return rows
}

type hostFindingsCmd struct{ cli.FormFlags }

func (hostFindingsCmd) Help() string {
	return `It takes some seconds where something is wrong: only what lasts is told. It exits with
1 if something is lost or cannot be used.

  sandkasten host findings
  sandkasten host findings --json | jq -r '.findings[].command // empty'`
}

func (c hostFindingsCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	report, err := cl.HostFindings(ctx)
	if err != nil {
		return err
	}
	done, err := c.Done(a, report)
	if err != nil {
		return err
	}
	failed := false
	if !done && len(report.Findings) == 0 {
		a.Say("Nothing is wrong.")
	}
	for _, f := range report.Findings {
		failed = failed || f.Severity == "fail"
		if done {
			continue
		}
		if err := printHostFinding(a, f); err != nil {
			return err
		}
	}
	if failed {
		return cli.CodeError(cli.ExitFailed)
	}
	return nil
}

// printHostFinding puts what is to be done below the line, where it can be copied.
func printHostFinding(a *cli.App, f sandkasten.HostFinding) error {
	what := f.What
	if f.Where != "" {
		what += " " + f.Where
	}
	found := f.Found
	if f.Expected != "" {
		found += " (expected: " + f.Expected + ")"
	}
	if _, err := fmt.Fprintf(a.Out, "%-4s  %s: %s\n", f.Severity, show.Printable(what), show.Printable(found)); err != nil {
		return err
	}
	if f.Mend == "" {
		return nil
	}
	_, err := fmt.Fprintf(a.Out, "      -> %s\n", show.Printable(f.Mend))
	return err
}
