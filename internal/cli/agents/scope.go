// Package agents is `sandkasten scope`, `sandkasten tools` and `sandkasten mcp`: the
// commands for programs that let models use sandboxes.
package agents

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/sandkasten/sandkasten/agents/tools"
	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// ScopeCmd is `sandkasten scope`.
type ScopeCmd struct {
	Ls       lsCmd       `cmd:"" help:"List scopes and how many sessions they have."`
	Complete completeCmd `cmd:"" help:"End the sessions of scopes whose work is done."`
}

// Help is what --help adds.
func (ScopeCmd) Help() string {
	return `A scope is a run of a workflow, an agent or a user of an application, whose agents
share sessions.

  sandkasten scope ls
  sandkasten scope complete workflow:run-1
  sandkasten scope complete workflow:run-1 --keep 1h`
}

type lsCmd struct{ cli.ListFlags }

// scopeRow is a scope as it is listed.
type scopeRow struct {
	Scope        string    `json:"scope"`
	Sessions     int       `json:"sessions"`
	CreatedAt    time.Time `json:"created_at"`
	LastActivity time.Time `json:"last_activity"`
}

func (c lsCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	sessions, err := cl.ListSessions(ctx, &sandkasten.ListSessionsOptions{Mine: true})
	if err != nil {
		return err
	}
	list, now := scopesOf(sessions), time.Now()
	rows := [][]string{{"SCOPE", "SESSIONS", "AGE", "IDLE"}}
	for _, s := range list {
		rows = append(rows, []string{s.Scope, strconv.Itoa(s.Sessions), show.Span(now.Sub(s.CreatedAt)), show.Span(now.Sub(s.LastActivity))})
	}
	return c.Print(a, list, rows, "No scopes. Agents make them with sandbox_open.")
}

// scopesOf are the scopes of sessions, by name.
func scopesOf(sessions []*sandkasten.Session) []scopeRow {
	byName := map[string]*scopeRow{}
	for _, s := range sessions {
		name := s.Info.Labels[tools.LabelScope]
		if name == "" {
			continue
		}
		row := byName[name]
		if row == nil { // the oldest session comes first
			row = &scopeRow{Scope: name, CreatedAt: s.Info.CreatedAt}
			byName[name] = row
		}
		row.Sessions++
		if s.Info.LastActivity.After(row.LastActivity) {
			row.LastActivity = s.Info.LastActivity
		}
	}
	list := make([]scopeRow, 0, len(byName))
	for _, row := range byName {
		list = append(list, *row)
	}
	slices.SortFunc(list, func(a, b scopeRow) int { return cmp.Compare(a.Scope, b.Scope) })
	return list
}

type completeCmd struct {
	Scopes []string `arg:"" name:"scope" help:"Scopes, as workflow:run-1."`
	Keep   cli.Span `placeholder:"TIME" help:"Keep their sessions for a time, such as 30m or 1h, and end them then."`
}

func (c completeCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	return a.RemoveEach(c.Scopes, func(scope string) error {
		if _, err := tools.ParseScope(scope); err != nil {
			return err
		}
		_, err := cl.CompleteScope(ctx, scope, &sandkasten.CompleteOptions{Retention: c.Keep.Duration()})
		return err
	})
}
