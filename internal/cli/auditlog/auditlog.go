// Package auditlog is `sandkasten audit`: the commands that read the log of what
// clients have done. What is in the log and how it is checked is internal/audit's.
package auditlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/audit"
	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
)

// Cmd is `sandkasten audit`.
type Cmd struct {
	Verify verifyCmd `cmd:"" help:"Check that no line was changed, removed or inserted."`
	Tail   tailCmd   `cmd:"" help:"Show the last lines."`
}

// Help is what --help adds.
func (Cmd) Help() string {
	return `The daemon writes a line for every request that changes something or reaches into a
sandbox, with the hash of the line before it. Only root can read it:

  sandkasten audit tail -f
  sandkasten audit verify

docs/audit.md describes the lines, and what the chain of hashes proves.`
}

type verifyCmd struct {
	Files  []string `arg:"" optional:"" type:"path" help:"Files of a log, oldest first. By default those of the configuration."`
	Expect string   `placeholder:"HASH" help:"Hash that an earlier verify printed; the log must still have its line."`
	JSON   bool     `name:"json" help:"Print JSON."`
}

func (verifyCmd) Help() string {
	return `Prints the hash of the last line. Keep it on another machine: with --expect the
next verify proves that no earlier line has changed and that the log was not cut.
It exits with 1 at the first line that was changed.

  sandkasten audit verify
  sandkasten audit verify --expect 3f5a...`
}

type verified struct {
	Lines    int64     `json:"lines"`
	First    int64     `json:"first"`
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	LastHash string    `json:"last_hash"`
	Cut      int       `json:"cut"`
}

func (c verifyCmd) Run(a *cli.App) error {
	files := c.Files
	if len(files) == 0 {
		var err error
		if _, files, err = findLog(a); err != nil {
			return err
		}
	}
	found := false
	report, err := audit.Verify(files, func(l audit.Line) error {
		found = found || c.Expect != "" && strings.HasSuffix(string(l.Text), `"hash":"`+c.Expect+"\"}\n")
		return nil
	})
	if err != nil {
		return err
	}
	if c.Expect != "" && !found {
		return fmt.Errorf("no line has the hash %s: the log was cut or rewritten, or its oldest files are gone (it begins with line %d)", c.Expect, report.First)
	}
	if c.JSON {
		return show.JSON(a.Out, verified{report.Lines, report.First, report.From, report.To, report.Last, report.Cut})
	}
	if _, err := fmt.Fprintf(a.Out, "%d lines, from %s to %s, are as they were written\nlast hash: %s\n",
		report.Lines, report.From.Format(time.DateTime), report.To.Format(time.DateTime), report.Last); err != nil {
		return err
	}
	if report.First > 1 {
		a.Say("The log begins with line %d: older files were removed because of audit.max_files.", report.First)
	}
	if report.Cut > 0 {
		a.Say("%d lines were cut by a crash of the host.", report.Cut)
	}
	return nil
}

type tailCmd struct {
	Lines  int  `short:"n" default:"20" help:"How many lines."`
	Follow bool `short:"f" help:"Follow new lines."`

	Changes bool `help:"Only lines of what changes something or runs a program, not of what only looks, listens or asks again."`
	JSON    bool `name:"json" help:"Print the lines unchanged."`
}

func (c tailCmd) Run(ctx context.Context, a *cli.App) error {
	dir, files, err := findLog(a)
	if err != nil {
		return err
	}
	last, seq, err := c.last(files)
	if err != nil {
		return err
	}
	for _, text := range last {
		if _, err := a.Out.WriteString(text); err != nil {
			return err
		}
	}
	if !c.Follow {
		return nil
	}
	return audit.Follow(ctx, dir, seq, func(l audit.Line) error {
		if c.Changes && !l.IsChange() {
			return nil
		}
		_, err := a.Out.WriteString(c.text(l))
		return err
	})
}

// last is the end of the log, as it is to be printed, and the number of its last line.
func (c tailCmd) last(files []string) (texts []string, seq int64, err error) {
	_, err = audit.Verify(files, func(l audit.Line) error {
		seq = l.Seq
		if c.Changes && !l.IsChange() {
			return nil
		}
		texts = append(texts, c.text(l))
		if len(texts) > max(c.Lines, 0) {
			texts = texts[1:]
		}
		return nil
	})
	if broken, ok := errors.AsType[*audit.BrokenError](err); ok {
		return texts, seq, fmt.Errorf("%w; the lines behind it are not shown", broken)
	}
	return texts, seq, err
}

func (c tailCmd) text(l audit.Line) string {
	if c.JSON {
		return string(l.Text)
	}
	fields := []string{
		l.Time.Format(time.DateTime), cmp.Or(show.Printable(l.Owner), "-"), strconv.Itoa(l.Status), show.Printable(l.Route),
	}
	for _, name := range slices.Sorted(maps.Keys(l.IDs)) {
		fields = append(fields, show.Printable(name+"="+l.IDs[name]))
	}
	switch {
	case l.Requests > 0:
		fields = append(fields, fmt.Sprintf("(%s: %d requests without a key, which have no line of their own)", show.Printable(l.Event), l.Requests))
	case l.Event != "answered":
		fields = append(fields, "("+show.Printable(l.Event)+")")
	default:
		fields = append(fields, fmt.Sprintf("%.0fms", l.Took))
	}
	return strings.Join(fields, "  ") + "\n"
}

// findLog returns the directory and files of the audit log that the configuration names.
func findLog(a *cli.App) (dir string, files []string, err error) {
	cfg, err := a.Configuration()
	if err != nil {
		return "", nil, err
	}
	files, err = audit.Files(cfg.Audit.Dir)
	if err != nil {
		return "", nil, err
	}
	if len(files) == 0 {
		return "", nil, fmt.Errorf("there is no audit log in %s: audit.enabled is %t, and the daemon writes it", cfg.Audit.Dir, cfg.Audit.Enabled)
	}
	return cfg.Audit.Dir, files, nil
}
