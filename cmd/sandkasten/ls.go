package main

import (
	"context"
	"time"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/sdk/go"
)

type lsCmd struct {
	All bool `short:"a" help:"Also sessions that ended not long ago."`
	cli.ListFlags
}

func (lsCmd) Help() string {
	return `Shows the sessions of your key, oldest first.

  sandkasten ls
  sandkasten rm $(sandkasten ls -q)`
}

func (c lsCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	all, err := cl.ListSessions(ctx, &sandkasten.ListSessionsOptions{IncludeEnded: c.All})
	if err != nil {
		return err
	}
	list := sessionInfos(all)
	return c.Print(a, list, sessionRows(list, time.Now()), "No sessions. `sandkasten create` makes one.")
}

func sessionInfos(sessions []*sandkasten.Session) []sandkasten.SessionInfo {
	infos := make([]sandkasten.SessionInfo, len(sessions))
	for i, s := range sessions {
		infos[i] = s.Info
	}
	return infos
}

func sessionRows(list []sandkasten.SessionInfo, now time.Time) [][]string {
	rows := [][]string{{"ID", "IMAGE", "STATUS", "AGE", "IDLE", "WHEN IDLE", "ENDS IN", "DIRECTORY"}}
	for _, s := range list {
		rows = append(rows, []string{
			s.ID, s.Image, s.Status, show.Span(now.Sub(s.CreatedAt)), show.Span(now.Sub(s.LastActivity)), whenIdle(s), show.Span(s.ExpiresAt.Sub(now)), s.Cwd,
		})
	}
	return rows
}

// whenIdle says what becomes of a session that nothing uses: "pause after 5m".
func whenIdle(s sandkasten.SessionInfo) string {
	after := s.IdleTimeoutSeconds
	if after == 0 {
		after = s.TTLSeconds
	}
	return s.OnIdle + " after " + show.Span(time.Duration(after)*time.Second)
}
