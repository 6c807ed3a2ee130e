package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/sdk/go"
)

type eventsCmd struct {
	cli.FormFlags
	Follow  bool     `short:"f" help:"As with other commands; this one follows in any case."`
	Session string   `placeholder:"SESSION" help:"Only what is about this session: its name, its id or a prefix of the id."`
	Types   []string `sep:"," enum:"session,exec,network,workspace,snapshot,image,pool,account" placeholder:"TYPE,..." help:"Only what is about these: session, exec, network, workspace, snapshot, image, pool, account."`
	Owner   string   `placeholder:"OWNER" help:"For admins: only what is of this owner."`
	Since   string   `placeholder:"ID" help:"Begin behind the event of this id, if the daemon still has what came then; --json shows ids."`
}

func (eventsCmd) Help() string {
	return `It shows what happens from now on, until it is interrupted, and goes on when the
daemon restarts. A line that begins with gap says that events are missing.

  sandkasten events -f
  sandkasten events -f --session $id --types exec
  sandkasten events -f --types session --json | jq .session.status`
}

func (c eventsCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	for e, err := range cl.Events(ctx, sandkasten.EventOptions{Since: c.Since, Types: c.Types, Session: c.Session, Owner: c.Owner}) {
		if err != nil {
			return err
		}
		done, err := c.Done(a, e)
		if !done && e.Type != sandkasten.EventReady {
			_, err = fmt.Fprintln(a.Out, show.Printable(eventLine(e)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// eventLine is an event for people.
func eventLine(e sandkasten.Event) string {
	about := cmp.Or(e.SessionID, e.DeletedID)
	text := fmt.Sprintf("%s  %-17s  %-26s  %s", e.Time.Local().Format(time.DateTime), e.Type, about, eventText(e))
	return strings.TrimRight(text, " ")
}

// eventText is what an event says beside its type and what it is about.
func eventText(e sandkasten.Event) string {
	switch {
	case e.Type == sandkasten.EventGap:
		return e.Reason + ": list again " + strings.Join(e.Reload, ", ")
	case e.Session != nil && e.Before != "":
		return strings.TrimRight(e.Before+" -> "+e.Session.Status+"  "+e.Session.EndReason, " ")
	case e.Session != nil:
		return strings.TrimRight(e.Session.Image+"  "+e.Session.Name, " ")
	case e.Exec != nil && e.Exec.ExitCode != nil:
		took := time.Duration(e.Exec.DurationMS) * time.Millisecond
		return fmt.Sprintf("%s  %s %d  %s  %s", e.Exec.ExecID, cmp.Or(e.Exec.Cause, "never began"), *e.Exec.ExitCode, took, firstLine(e.Exec.Cmd))
	case e.Exec != nil:
		return e.Exec.ExecID + "  " + firstLine(e.Exec.Cmd)
	case e.ExecBurst != nil:
		return fmt.Sprintf("%d more began, %d ended", e.ExecBurst.Started, e.ExecBurst.Finished)
	case e.Network != nil:
		return decisionText(*e.Network)
	case e.NetworkBurst != nil:
		return fmt.Sprintf("%d more allowed, %d refused", e.NetworkBurst.Allowed, e.NetworkBurst.Denied)
	case e.Workspace != nil:
		return e.Workspace.ID
	case e.Snapshot != nil:
		return strings.TrimRight(e.Snapshot.ID+"  "+e.Snapshot.Name, " ")
	case e.ImageJob != nil:
		j := e.ImageJob
		return strings.TrimRight(fmt.Sprintf("%s  %s %s  %s  %s", j.ID, j.Kind, j.Name, j.Status, cmp.Or(j.Error, j.Progress.Phase)), " ")
	case e.Pool != nil:
		return fmt.Sprintf("%d ready", e.Pool.Ready)
	case e.Account != nil:
		return strings.TrimRight(e.Account.User+"  "+e.Account.KeyID, " ")
	}
	return ""
}

func decisionText(e sandkasten.NetworkEvent) string {
	verdict := "refused"
	if e.Allowed {
		verdict = "allowed"
	}
	return fmt.Sprintf("%s  %s %s  %s", verdict, e.Op, cmp.Or(e.Name, e.Address), e.Why)
}
