package networks

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/sdk/go"
)

type logCmd struct {
	cli.FormFlags
	Follow  bool   `short:"f" help:"Go on with what is decided from now on, until the session ends."`
	Since   int64  `placeholder:"SEQ" help:"Only what came after the decision of this number; --json shows the numbers."`
	Denied  bool   `help:"Only what was refused."`
	Session string `arg:"" help:"Session: its name, its id or a prefix of the id."`
}

func (logCmd) Help() string {
	return `The daemon keeps the last 1000 decisions since the session's last start, or its own:
name queries, connections and requests. A refused line ends with the command that
allows it, if an entry of the list does.

  sandkasten network log $id
  sandkasten network log $id -f --denied
  sandkasten network log $id --denied --format '{{.Name}}' | sort -u`
}

func (c logCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	s := cl.Session(c.Session)
	if c.Follow {
		return c.follow(ctx, a, s)
	}
	log, err := s.NetworkLog(ctx, c.Since, 0)
	if err != nil {
		return err
	}
	events := slices.DeleteFunc(log.Events, func(e sandkasten.NetworkEvent) bool { return !c.wants(e) })
	if done, err := c.Done(a, events); done || err != nil {
		return err
	}
	if len(log.Events) == 0 {
		a.Say("Nothing was decided: the session has no network, or has not used it since its last start.")
	}
	for _, e := range events {
		if err := printLine(a, e, AllowCommand(c.Session)); err != nil {
			return err
		}
	}
	return nil
}

func (c logCmd) wants(e sandkasten.NetworkEvent) bool { return !c.Denied || !e.Allowed }

func (c logCmd) follow(ctx context.Context, a *cli.App, s *sandkasten.Session) error {
	for e, err := range s.FollowNetworkLog(ctx, c.Since) {
		if err != nil {
			return err
		}
		if !c.wants(e) {
			continue
		}
		done, err := c.Done(a, e)
		if !done {
			err = printLine(a, e, AllowCommand(c.Session))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func printLine(a *cli.App, e sandkasten.NetworkEvent, command string) error {
	_, err := fmt.Fprintln(a.Out, show.Printable(line(e, command)))
	return err
}

// line is a decision for people. That of a refusal ends with the command that allows
// it, if there is one.
func line(e sandkasten.NetworkEvent, command string) string {
	verdict := "refused"
	if e.Allowed {
		verdict = "allowed"
	}
	text := fmt.Sprintf("%s  %s  %-9s  %-28s  %s", e.Time.Local().Format(time.DateTime), verdict, e.Op, target(e.Name, e.Address, e.Port), e.Why)
	if e.Sent > 0 || e.Got > 0 {
		text += fmt.Sprintf("  %s sent, %s received", show.Size(e.Sent), show.Size(e.Got))
	}
	if e.Count > 1 {
		text += fmt.Sprintf("  (%d times)", e.Count)
	}
	if isPlain(e.Entry) {
		text += "  " + command + e.Entry
	}
	return strings.TrimRight(text, " ")
}

// AllowCommand is what lets a session reach an entry that stands behind it.
func AllowCommand(session string) string { return "sandkasten network allow " + session + " " }

// Explain says what the network of a session refused to a command, and the command
// that allows it: that which is given, with the entry behind it.
func Explain(a *cli.App, denied []sandkasten.NetworkDenial, command string) {
	for _, d := range slices.Backward(denied) { // the newest is the first
		text := "the network refused " + target(d.Name, d.Address, d.Port)
		if d.Why != "" {
			text += " (" + d.Why + ")"
		}
		if isPlain(d.Entry) {
			text += "; " + command + d.Entry
		}
		a.Say("sandkasten: %s", show.Printable(text))
	}
}

// target is what a sandbox wanted to reach.
func target(name, address string, port int) string {
	host := cmp.Or(name, address)
	if port == 0 {
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// isPlain reports whether an entry may be pasted into a shell: the sandbox has chosen the
// name in it.
func isPlain(entry string) bool {
	return entry != "" && entry[0] != '-' && strings.Trim(entry, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:[]@") == ""
}
