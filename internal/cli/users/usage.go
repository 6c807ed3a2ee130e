package users

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// UsageCmd is `sandkasten usage`.
type UsageCmd struct {
	User  string `placeholder:"NAME" help:"Whose, for admins."`
	Month string `placeholder:"MONTH" help:"A month of UTC, such as 2026-11, instead of this one."`
	All   bool   `help:"What all owners use, for admins: who has most memory in use comes first."`
	Days  bool   `help:"What was used by day: for admins by all owners, or by --user."`
	CSV   bool   `name:"csv" help:"The days as a table for a spreadsheet."`
	Since string `placeholder:"DAY" help:"With --days: the first day of UTC, such as 2026-11-01; 30 days ago without it."`
	Until string `placeholder:"DAY" help:"With --days: the last day."`
	cli.FormFlags
}

// Help is what --help adds.
func (UsageCmd) Help() string {
	return `What your sessions used in a calendar month, what you have now, and your limits.

  sandkasten usage
  sandkasten usage --user alice --month 2026-10
  sandkasten usage --all
  sandkasten usage --days --csv --since 2026-11-01 >usage.csv
  sandkasten usage --json`
}

// Run is for the command line.
func (c UsageCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	switch {
	case c.Days || c.CSV:
		return c.days(ctx, a, cl)
	case c.All:
		return c.all(ctx, a, cl)
	}
	var used *sandkasten.OwnerUsage
	var err error
	if c.User == "" {
		used, err = cl.MyUsage(ctx, c.Month)
	} else {
		used, err = cl.UserUsage(ctx, c.User, c.Month)
	}
	if err != nil {
		return err
	}
	if done, err := c.Done(a, *used); done {
		return err
	}
	return show.Table(a.Out, usageRows(*used))
}

// all prints what all owners use.
func (c UsageCmd) all(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	used, err := cl.AllUsage(ctx, c.Month)
	if err != nil {
		return err
	}
	if done, err := c.Done(a, *used); done {
		return err
	}
	const mib = 1 << 20
	slices.SortStableFunc(used.Owners, func(x, y sandkasten.OwnerShare) int { return cmp.Compare(y.MemoryBytes, x.MemoryBytes) })
	rows := [][]string{{"OWNER", "MEMORY", "OF", "RUNNING", "SESSIONS", "SESSION TIME", "CPU TIME", "NETWORK", "DISK", "SNAPSHOTS"}}
	for _, u := range used.Owners {
		rows = append(rows, []string{
			u.Owner, show.Size(u.MemoryBytes), show.Size(u.Now.MemoryMB * mib), strconv.Itoa(u.Now.RunningSessions), strconv.Itoa(u.Now.Sessions),
			spanOf(u.SessionSeconds), spanOf(u.CPUSeconds), show.Size(u.SentBytes + u.ReceivedBytes), show.Size(u.Now.DiskMB * mib), show.Size(u.Now.SnapshotBytes),
		})
	}
	return show.Table(a.Out, rows)
}

// days prints what was used by day.
func (c UsageCmd) days(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	options := &sandkasten.UsageDaysOptions{Since: c.Since, Until: c.Until, Owner: c.User}
	if c.CSV {
		text, err := cl.UsageCSV(ctx, options)
		if err != nil {
			return err
		}
		_, err = fmt.Fprint(a.Out, text)
		return err
	}
	days, err := cl.UsageDays(ctx, options)
	if err != nil {
		return err
	}
	if done, err := c.Done(a, days); done {
		return err
	}
	rows := [][]string{{"DAY", "OWNER", "SESSION TIME", "CPU TIME", "MEMORY HOURS", "SENT", "RECEIVED", "SESSIONS"}}
	for _, d := range days {
		rows = append(rows, []string{
			d.Day, d.Owner, spanOf(d.SessionSeconds), spanOf(d.CPUSeconds), show.Size(d.MemoryMBSeconds << 20 / 3600),
			show.Size(d.SentBytes), show.Size(d.ReceivedBytes), strconv.FormatInt(d.SessionsCreated, 10),
		})
	}
	return show.Table(a.Out, rows)
}

// usageRows are those of a table: what is counted for the month and what there is now.
func usageRows(u sandkasten.OwnerUsage) [][]string {
	const mib = 1 << 20
	frees := u.FreesAt.UTC().Format(time.RFC3339)
	q := u.Quota
	rows := [][]string{
		{show.Printable(u.Owner), "USED", "LIMIT", "USED UP", "FREES"},
		{"session time in " + u.Month, spanOf(u.SessionSeconds), spanLimit(q.SessionSeconds), share(u.SessionSeconds, q.SessionSeconds), frees},
		{"network in " + u.Month, show.Size(u.SentBytes + u.ReceivedBytes), sizeLimit(q.NetworkMB), share(float64(u.SentBytes+u.ReceivedBytes)/mib, q.NetworkMB), frees},
		{"processor time in " + u.Month, spanOf(u.CPUSeconds), "", "", ""},
		{"sessions made in " + u.Month, strconv.FormatInt(u.SessionsCreated, 10), "", "", ""},
		{"sessions", strconv.Itoa(u.Now.Sessions), limitOf(q.MaxSessions), share(float64(u.Now.Sessions), q.MaxSessions), "when one ends"},
		{"running sessions", strconv.Itoa(u.Now.RunningSessions), limitOf(q.MaxRunningSessions), share(float64(u.Now.RunningSessions), q.MaxRunningSessions), "when one stops"},
		{"cores", number(u.Now.CPU), limitOf(q.CPU), share(u.Now.CPU, q.CPU), "when one stops"},
		{"memory", show.Size(u.Now.MemoryMB * mib), sizeLimit(q.MemoryMB), share(float64(u.Now.MemoryMB), q.MemoryMB), "when one stops"},
		{"disk", show.Size(u.Now.DiskMB * mib), sizeLimit(q.DiskMB), share(float64(u.Now.DiskMB), q.DiskMB), "when a session ends or a workspace is deleted"},
		{"workspaces", strconv.Itoa(u.Now.Workspaces), limitOf(q.MaxWorkspaces), share(float64(u.Now.Workspaces), q.MaxWorkspaces), "when one is deleted"},
		{"snapshots", show.Size(u.Now.SnapshotBytes), sizeLimit(q.SnapshotMB), share(float64(u.Now.SnapshotBytes)/mib, q.SnapshotMB), "when one is deleted"},
	}
	for _, row := range rows[1:] {
		if row[2] == "" {
			row[4] = "" // what has no limit need not get free
		}
	}
	return rows
}

func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

func spanOf(seconds float64) string {
	return show.Span(time.Duration(seconds * float64(time.Second)))
}

func spanLimit(seconds *int64) string {
	if seconds == nil {
		return ""
	}
	return spanOf(float64(*seconds))
}

func sizeLimit(mib *int64) string {
	if mib == nil {
		return ""
	}
	return show.Size(*mib << 20)
}

func limitOf[T int | int64 | float64](n *T) string {
	if n == nil {
		return ""
	}
	return number(float64(*n))
}

// share is how much of a limit is used.
func share[T int | int64 | float64](used float64, limit *T) string {
	if limit == nil || *limit == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f%%", math.Floor(100*used/float64(*limit)))
}

// quotaFlags change a user's quota.
type quotaFlags struct {
	MaxSessions            quotaLimit `placeholder:"N" help:"Sessions that have not ended; 0 is no limit and 'default' the daemon's, as for those below."`
	MaxRunningSessions     quotaLimit `placeholder:"N" help:"Of these, sessions that are not stopped."`
	CPU                    quotaLimit `name:"cpu" placeholder:"N" help:"Cores of the sessions that are not stopped."`
	MemoryMB               quotaLimit `name:"memory-mb" placeholder:"N" help:"MiB of memory of the sessions that are not stopped."`
	DiskMB                 quotaLimit `name:"disk-mb" placeholder:"N" help:"MiB of disk of all sessions and workspaces."`
	MaxWorkspaces          quotaLimit `placeholder:"N" help:"Workspaces."`
	SnapshotMB             quotaLimit `name:"snapshot-mb" placeholder:"N" help:"MiB of all snapshots."`
	NetworkMBPerMonth      quotaLimit `name:"network-mb-per-month" placeholder:"N" help:"MiB that sessions send and receive in a month."`
	SessionSecondsPerMonth quotaLimit `placeholder:"N" help:"Seconds that sessions live in a month, all together."`
	MaxImages              quotaLimit `placeholder:"N" help:"Images that the user makes, see --images; 10 by default."`
	ImageMB                quotaLimit `name:"image-mb" placeholder:"N" help:"MiB of these images together; 20480 by default."`
}

// update is nil if no flag is given.
func (f quotaFlags) update() *sandkasten.QuotaUpdate {
	update := sandkasten.QuotaUpdate{
		MaxSessions: f.MaxSessions.change, MaxRunningSessions: f.MaxRunningSessions.change, CPU: f.CPU.change, MemoryMB: f.MemoryMB.change,
		DiskMB: f.DiskMB.change, MaxWorkspaces: f.MaxWorkspaces.change, SnapshotMB: f.SnapshotMB.change, NetworkMB: f.NetworkMBPerMonth.change, SessionSeconds: f.SessionSecondsPerMonth.change,
		MaxImages: f.MaxImages.change, ImageMB: f.ImageMB.change,
	}
	if update == (sandkasten.QuotaUpdate{}) {
		return nil
	}
	return &update
}

// quotaLimit is a limit in a flag.
type quotaLimit struct{ change sandkasten.Limit }

// UnmarshalText reads a number or "default".
func (l *quotaLimit) UnmarshalText(text []byte) error {
	if string(text) == "default" {
		l.change = sandkasten.DefaultLimit()
		return nil
	}
	n, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(n >= 0) || math.IsInf(n, 0) {
		return fmt.Errorf("%q is not a limit: write a number, 0 for none or default for the daemon's", text)
	}
	l.change = sandkasten.LimitTo(n)
	return nil
}

type showCmd struct {
	Name string `arg:"" name:"user" help:"Name."`
	cli.FormFlags
}

func (showCmd) Help() string {
	return "The limits are those that are the user's own. `sandkasten usage --user NAME` shows all that hold, and what is used."
}

func (c showCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	u, err := cl.GetUser(ctx, c.Name)
	if err != nil {
		return err
	}
	if done, err := c.Done(a, *u); done {
		return err
	}
	rows := [][]string{
		{"NAME", show.Printable(u.Name)},
		{"EMAIL", show.Printable(u.Email)},
		{"ROLE", u.Role},
		{"STATE", u.State},
		{"INSPECTS", yes(u.Inspect)},
		{"IMAGES", u.Images},
		{"AGE", show.Span(time.Since(u.CreatedAt))},
	}
	return show.Table(a.Out, append(rows, quotaRows(u.Quota)...))
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// quotaRows are the limits that a quota has.
func quotaRows(q *sandkasten.Quota) (rows [][]string) {
	if q == nil {
		return nil
	}
	for _, limit := range []struct{ name, value string }{
		{"MAX SESSIONS", limitOf(q.MaxSessions)},
		{"MAX RUNNING SESSIONS", limitOf(q.MaxRunningSessions)},
		{"CPU", limitOf(q.CPU)},
		{"MEMORY MB", limitOf(q.MemoryMB)},
		{"DISK MB", limitOf(q.DiskMB)},
		{"MAX WORKSPACES", limitOf(q.MaxWorkspaces)},
		{"SNAPSHOT MB", limitOf(q.SnapshotMB)},
		{"NETWORK MB PER MONTH", limitOf(q.NetworkMB)},
		{"SESSION SECONDS PER MONTH", limitOf(q.SessionSeconds)},
		{"MAX IMAGES", limitOf(q.MaxImages)},
		{"IMAGE MB", limitOf(q.ImageMB)},
	} {
		if limit.value == "0" {
			limit.value = "no limit"
		}
		if limit.value != "" {
			rows = append(rows, []string{limit.name, limit.value})
		}
	}
	return rows
}
