package main

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/sdk/go"
)

type lsCmd struct {
	All       bool     `short:"a" help:"Also list recently ended sessions."`
	Label     []string `short:"l" sep:"none" placeholder:"NAME[=VALUE]" help:"Only sessions with this label. Repeatable: they must have all."`
	Owner     string   `xor:"owner" placeholder:"NAME" help:"Only sessions of this owner, for admins."`
	Everybody bool     `xor:"owner" help:"The sessions of all owners, for admins."`
	Scope     string   `placeholder:"NAMESPACE:ID" help:"Only sessions that this scope of yours opened, such as workflow:run-1."`
	cli.ListFlags
}

func (lsCmd) Help() string {
	return `Shows the sessions of your key, oldest first.

  sandkasten ls
  sandkasten ls --label task=42 --label keep
  sandkasten ls --scope workflow:run-1
  sandkasten ls --everybody
  sandkasten ls --format '{{.ID}} {{.Name}} {{.Labels.task}}'
  sandkasten rm $(sandkasten ls -q)`
}

func (c lsCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	all, err := cl.ListSessions(ctx, &sandkasten.ListSessionsOptions{
		IncludeEnded: c.All, Scope: c.Scope, Owner: c.Owner, Mine: c.Owner == "" && !c.Everybody,
	})
	if err != nil {
		return err
	}
	list := slices.DeleteFunc(sessionInfos(all), func(s sandkasten.SessionInfo) bool { return !hasLabels(s.Labels, c.Label) })
	rows := sessionRows(list, time.Now())
	if c.All {
		rows = withColumn(rows, "WHY", func(i int) string { return list[i].EndReason }) // why it ended, or was stopped or paused
	}
	if c.Owner != "" || c.Everybody {
		rows = withColumn(rows, "OWNER", func(i int) string { return list[i].Owner })
	}
	return c.Print(a, list, rows, "No sessions. `sandkasten create` makes one.")
}

// hasLabels reports whether labels has all wanted ones.
func hasLabels(labels map[string]string, wanted []string) bool {
	for _, want := range wanted {
		key, value, whole := strings.Cut(want, "=")
		got, ok := labels[key]
		if !ok || whole && got != value {
			return false
		}
	}
	return true
}

func sessionInfos(sessions []*sandkasten.Session) []sandkasten.SessionInfo {
	infos := make([]sandkasten.SessionInfo, len(sessions))
	for i, s := range sessions {
		infos[i] = s.Info
	}
	return infos
}

func sessionRows(list []sandkasten.SessionInfo, now time.Time) [][]string {
	rows := [][]string{{"ID", "NAME", "IMAGE", "STATUS", "AGE", "IDLE", "WHEN IDLE", "ENDS IN", "ON EXPIRY", "DIRECTORY", "LABELS"}}
	for _, s := range list {
		rows = append(rows, []string{
			s.ID, s.Name, s.Image, s.Status, show.Span(now.Sub(s.CreatedAt)), show.Span(now.Sub(s.LastActivity)), whenIdle(s), show.Span(s.ExpiresAt.Sub(now)), expiryOf(s), s.Cwd, show.Labels(s.Labels),
		})
	}
	return rows
}

// withColumn adds a column to a table.
func withColumn(rows [][]string, heading string, of func(i int) string) [][]string {
	rows[0] = append(rows[0], heading)
	for i := range rows[1:] {
		rows[i+1] = append(rows[i+1], of(i))
	}
	return rows
}

// whenIdle says what becomes of a session that nothing uses: "pause after 5m".
func whenIdle(s sandkasten.SessionInfo) string {
	if s.Status == "stopped" {
		return "destroy after " + show.Span(time.Duration(s.RetentionSeconds)*time.Second)
	}
	after, what := s.IdleTimeoutSeconds, s.OnIdle
	if after == 0 {
		after, what = s.TTLSeconds, cmp.Or(s.OnExpiry, what)
	}
	return what + " after " + show.Span(time.Duration(after)*time.Second)
}
