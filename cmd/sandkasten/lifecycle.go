package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// theSessions is what commands about several sessions take.
type theSessions struct {
	Sessions []string `arg:"" name:"session" help:"Sessions: names, ids or prefixes of ids."`
}

// changeSessions does action with every session, many in one request, also if one of
// them refuses. It tells done of each that is changed.
func changeSessions(ctx context.Context, cl *sandkasten.Client, action sandkasten.BulkAction, ids []string, done func(sandkasten.BulkResult) error) error {
	var failed error
	for some := range slices.Chunk(ids, sandkasten.MaxBulk) {
		results, err := cl.ChangeSessions(ctx, action, some...)
		if err != nil {
			return errors.Join(failed, err)
		}
		for _, one := range results {
			if err := done(one); err != nil {
				failed = errors.Join(failed, err)
			}
		}
	}
	return failed
}

// change is changeSessions of a command that has nothing to say of what went well.
func (c theSessions) change(ctx context.Context, cl *sandkasten.Client, action sandkasten.BulkAction) error {
	return changeSessions(ctx, cl, action, c.Sessions, func(one sandkasten.BulkResult) error { return problemOf(one) })
}

// problemOf is why a session was not changed, or nil.
func problemOf(one sandkasten.BulkResult) error {
	if one.Error == nil {
		return nil
	}
	return one.Error
}

// each does something to every session, also if one of them refuses.
func (c theSessions) each(ctx context.Context, cl *sandkasten.Client, do func(*sandkasten.Session) error) error {
	var failed error
	for _, id := range c.Sessions {
		if err := do(cl.Session(id)); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

type pauseCmd struct{ theSessions }

func (pauseCmd) Help() string {
	return `Freezes the session's programs: they keep their memory and use no processor time.
The next command, file copy or terminal wakes them.

  sandkasten pause $id
  sandkasten exec $id date`
}

func (c pauseCmd) Run(ctx context.Context, cl *sandkasten.Client) error {
	return c.change(ctx, cl, sandkasten.BulkPause)
}

type resumeCmd struct{ theSessions }

func (resumeCmd) Help() string {
	return `Only sessions with --no-auto-resume need this: others wake when they are used.

  sandkasten resume $id`
}

func (c resumeCmd) Run(ctx context.Context, cl *sandkasten.Client) error {
	return c.change(ctx, cl, sandkasten.BulkResume)
}

type stopCmd struct{ theSessions }

func (stopCmd) Help() string {
	return `Kills all processes and keeps all files, until the printed time: a week later by
default. A stopped session uses only disk, and survives a restart of the host.

  sandkasten stop $id
  sandkasten start $id`
}

func (c stopCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	return changeSessions(ctx, cl, sandkasten.BulkStop, c.Sessions, func(one sandkasten.BulkResult) error {
		if one.Session != nil {
			a.Say("%s is kept until %s", one.Session.ID, one.Session.ExpiresAt.Local().Format(time.DateTime))
		}
		return problemOf(one)
	})
}

type startCmd struct{ theSessions }

func (startCmd) Help() string {
	return `The session keeps its files, limits and environment, and gets new shells.

  sandkasten start $id`
}

func (c startCmd) Run(ctx context.Context, cl *sandkasten.Client) error {
	return c.change(ctx, cl, sandkasten.BulkStart)
}

type keepCmd struct{ theSessions }

func (keepCmd) Help() string {
	return `Restarts the idle time, as a command does. It does not wake a paused session.

  while sleep 60; do sandkasten keep $id; done`
}

func (c keepCmd) Run(ctx context.Context, cl *sandkasten.Client) error {
	return c.each(ctx, cl, func(s *sandkasten.Session) error { return s.Heartbeat(ctx) })
}

type setCmd struct {
	policyFlags

	JSON    bool   `name:"json" help:"Print the whole session as JSON."`
	Session string `arg:"" name:"session" help:"Session: its name, its id or a prefix of the id."`
}

func (setCmd) Help() string {
	return `Settings without a flag stay. Labels replace all labels.

  sandkasten set $id --ttl 2h
  sandkasten set $id --on-idle stop --idle-timeout 10m
  sandkasten set $id --no-auto-resume`
}

func (c setCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	o := c.options()
	s, err := cl.Session(c.Session).Update(ctx, &o)
	if err != nil || !c.JSON {
		return err
	}
	if err := show.JSON(a.Out, s); err != nil {
		return fmt.Errorf("print the session: %w", err)
	}
	return nil
}
