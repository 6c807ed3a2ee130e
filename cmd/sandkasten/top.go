package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/sdk/go"
)

type topCmd struct {
	cli.FormFlags

	Interval  cli.Span `short:"i" default:"2s" placeholder:"TIME" help:"Between two looks."`
	Count     int      `short:"n" placeholder:"N" help:"End after this many updates."`
	By        string   `enum:"cpu,memory" default:"cpu" placeholder:"WHAT" help:"What orders the sessions: cpu or memory."`
	Everybody bool     `help:"The sessions of all owners, for admins."`
	Sessions  []string `arg:"" optional:"" name:"session" help:"Sessions; all by default."`
}

func (topCmd) Help() string {
	return `The session that uses the processors most comes first; 100% is one core. On a
terminal the table updates until Ctrl-C, elsewhere each update is a new table. This
does not count as use.

  sandkasten top
  sandkasten top -n 1 -i 5s
  sandkasten top --everybody --by memory
  sandkasten top --format '{{.Name}} {{.CPUPercent}}'`
}

// used is what a session used between two looks.
type used struct {
	namedStats
	CPUPercent float64 `json:"cpu_percent"` // of one core
}

func (c topCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	before, err := gatherStats(ctx, cl, c.Sessions, sandkasten.ListSessionsOptions{Mine: !c.Everybody})
	looked := time.Now()
	for n := 1; err == nil; n++ {
		if err := sleep(ctx, c.Interval.Duration()); err != nil {
			return err
		}
		var now []namedStats
		if now, err = gatherStats(ctx, cl, c.Sessions, sandkasten.ListSessionsOptions{Mine: !c.Everybody}); err != nil {
			break
		}
		at := time.Now()
		if err := c.show(a, usedSince(before, now, at.Sub(looked))); err != nil {
			return err
		}
		if n == c.Count {
			return nil
		}
		before, looked = now, at
	}
	return err
}

// show prints what sessions used between two looks.
func (c topCmd) show(a *cli.App, all []used) error {
	if c.By == "memory" {
		slices.SortStableFunc(all, func(a, b used) int { return cmp.Compare(b.MemoryBytes, a.MemoryBytes) })
	}
	if done, err := c.Done(a, all); done || err != nil {
		return err
	}
	if show.IsTerminal(a.Out) {
		fmt.Fprint(a.Out, "\x1b[H\x1b[2J") //nolint:errcheck // the table after it tells
	}
	rows := topRows(all)
	if c.Everybody {
		rows = withColumn(rows, "OWNER", func(i int) string { return all[i].Owner })
	}
	return show.Table(a.Out, rows)
}

// sleep waits, or returns why the context has ended.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// usedSince compares two looks: what was not there at the first has used all that
// it has since then.
func usedSince(before, now []namedStats, took time.Duration) []used {
	earlier := make(map[string]int64, len(before))
	for _, s := range before {
		earlier[s.ID] = s.CPUUsageUsec
	}
	all := make([]used, len(now))
	for i, s := range now {
		spent := max(0, s.CPUUsageUsec-earlier[s.ID]) // less after a restart of the session
		all[i] = used{s, 100 * float64(spent) / float64(max(1, took.Microseconds()))}
	}
	slices.SortStableFunc(all, func(a, b used) int { return cmp.Compare(b.CPUPercent, a.CPUPercent) })
	return all
}

func topRows(all []used) [][]string {
	rows := [][]string{{"ID", "NAME", "CPU", "OF", "MEMORY", "OF", "PIDS", "DISK", "CPU TIME"}}
	for _, s := range all {
		rows = append(rows, []string{
			s.ID, s.Name, strconv.FormatFloat(s.CPUPercent, 'f', 1, 64) + "%", strconv.FormatFloat(100*s.CPULimit, 'f', -1, 64) + "%",
			show.Size(s.MemoryBytes), show.Size(s.MemoryLimit), strconv.FormatInt(s.Pids, 10), show.Size(s.DiskBytes),
			(time.Duration(s.CPUUsageUsec) * time.Microsecond).Round(time.Millisecond).String(),
		})
	}
	return rows
}
