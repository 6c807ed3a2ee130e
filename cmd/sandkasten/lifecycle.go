package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// theSessions is what commands about several sessions take.
type theSessions struct {
	Sessions []string `arg:"" name:"session" help:"Sessions: names, ids or beginnings of ids."`
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
	return `Its programs stand still where they are, keep their memory and cost no processor
time. The next command, file copy or terminal wakes them.

  sandkasten pause $id
  sandkasten exec $id date`
}

func (c pauseCmd) Run(ctx context.Context, cl *sandkasten.Client) error {
	return c.each(ctx, cl, func(s *sandkasten.Session) error {
		_, err := s.Pause(ctx, nil)
		return err
	})
}

type resumeCmd struct{ theSessions }

func (resumeCmd) Help() string {
	return `It is needed only for a session with --no-auto-resume: others wake when they are
used.

  sandkasten resume $id`
}

func (c resumeCmd) Run(ctx context.Context, cl *sandkasten.Client) error {
	return c.each(ctx, cl, func(s *sandkasten.Session) error {
		_, err := s.Resume(ctx)
		return err
	})
}

type stopCmd struct{ theSessions }

func (stopCmd) Help() string {
	return `All its processes are killed, and all its files are kept, for as long as it says: a
week, unless the daemon is configured otherwise. A stopped session costs disk only, and
survives a restart of the host.

  sandkasten stop $id
  sandkasten start $id`
}

func (c stopCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	return c.each(ctx, cl, func(s *sandkasten.Session) error {
		info, err := s.Stop(ctx)
		if err == nil {
			a.Say("%s is kept until %s", info.ID, info.ExpiresAt.Local().Format(time.DateTime))
		}
		return err
	})
}

type startCmd struct{ theSessions }

func (startCmd) Help() string {
	return `It has the files, limits and environment that it had, and new shells.

  sandkasten start $id`
}

func (c startCmd) Run(ctx context.Context, cl *sandkasten.Client) error {
	return c.each(ctx, cl, func(s *sandkasten.Session) error {
		_, err := s.Start(ctx)
		return err
	})
}

type keepCmd struct{ theSessions }

func (keepCmd) Help() string {
	return `Idle time begins anew, as after a command. A paused session is not woken.

  while sleep 60; do sandkasten keep $id; done`
}

func (c keepCmd) Run(ctx context.Context, cl *sandkasten.Client) error {
	return c.each(ctx, cl, func(s *sandkasten.Session) error { return s.Heartbeat(ctx) })
}

type setCmd struct {
	policyFlags

	JSON    bool   `name:"json" help:"Print the whole session as JSON."`
	Session string `arg:"" name:"session" help:"Session: its name, its id or the beginning of that."`
}

func (setCmd) Help() string {
	return `What no flag names stays as it is. Labels replace all labels.

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
