package files

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/sdk/go"
)

type lsCmd struct {
	Recursive bool `short:"r" help:"Also the directories below."`
	cli.FormFlags
	Session string `arg:"" help:"Session: its name, its id or a prefix of the id."`
	Path    string `arg:"" type:"inside" optional:"" default:"/workspace" help:"A directory."`
}

func (c lsCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	o := &sandkasten.ListOptions{}
	if c.Recursive {
		o.Depth = -1
	}
	all, err := List(cl.Session(c.Session).List(ctx, c.Path, o))
	if err != nil {
		return err
	}
	if done, err := c.Done(a, all); done {
		return err
	}
	return show.Table(a.Out, entryRows(all))
}

// List collects a directory's entries.
func List(entries iter.Seq2[sandkasten.Entry, error]) ([]sandkasten.Entry, error) {
	all := []sandkasten.Entry{} // in JSON no null
	for entry, err := range entries {
		if err != nil {
			return nil, err
		}
		all = append(all, entry)
	}
	return all, nil
}

func entryRows(entries []sandkasten.Entry) [][]string {
	rows := make([][]string, 0, len(entries))
	for _, e := range entries {
		name := e.Name
		if e.Target != "" {
			name += " -> " + e.Target
		}
		rows = append(rows, []string{e.Type, e.Mode, strconv.FormatInt(e.Size, 10), e.ModifiedAt.Format(time.DateTime), name})
	}
	return rows
}

type statCmd struct {
	Follow  bool   `short:"L" help:"Follow a link instead of describing it."`
	JSON    bool   `name:"json" help:"Print JSON."`
	Session string `arg:"" help:"Session: its name, its id or a prefix of the id."`
	Path    string `arg:"" type:"inside" help:"A file of any kind."`
}

func (c statCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	e, err := cl.Session(c.Session).Stat(ctx, c.Path, &sandkasten.StatOptions{Follow: c.Follow})
	if err != nil {
		return err
	}
	if c.JSON {
		return show.JSON(a.Out, e)
	}
	rows := [][]string{
		{"path", e.Path},
		{"type", e.Type},
		{"size", strconv.FormatInt(e.Size, 10)},
		{"mode", e.Mode},
		{"owner", fmt.Sprintf("%d:%d", e.UID, e.GID)},
		{"modified", e.ModifiedAt.Format(time.RFC3339)},
	}
	if e.Target != "" {
		rows = append(rows, []string{"target", e.Target})
	}
	return show.Table(a.Out, rows)
}

type findCmd struct {
	Hidden bool `short:"a" help:"Also names that begin with a dot."`
	Limit  int  `short:"n" placeholder:"N" help:"At most this many, up to 10000; 1000 by default."`
	cli.FormFlags
	Session string `arg:"" help:"Session: its name, its id or a prefix of the id."`
	Pattern string `arg:"" help:"Pattern, such as '*.go' or 'src/**/*.{c,h}'."`
	Path    string `arg:"" type:"inside" optional:"" default:"/workspace" help:"Where to look."`
}

func (c findCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	found, err := cl.Session(c.Session).Glob(ctx, c.Pattern, &sandkasten.GlobOptions{Path: c.Path, Hidden: c.Hidden, Limit: c.Limit})
	if err != nil {
		return err
	}
	if c.JSON {
		return show.JSON(a.Out, found)
	}
	if done, err := c.Done(a, found.Entries); done {
		return err
	}
	for _, e := range found.Entries {
		if _, err := fmt.Fprintln(a.Out, show.Printable(e.Name)); err != nil {
			return err
		}
	}
	sayTruncated(a, found.Truncated)
	return nil
}

// sayTruncated says that a search found more than it shows.
func sayTruncated(a *cli.App, truncated bool) {
	if truncated {
		a.Say("sandkasten: there are more; raise -n or narrow the pattern")
	}
}

type grepCmd struct {
	Literal    bool   `short:"F" help:"The pattern is text, not a regular expression."`
	IgnoreCase bool   `short:"i" help:"Upper and lower case are the same."`
	Include    string `placeholder:"PATTERN" help:"Only files with matching names, such as '*.go'."`
	Hidden     bool   `short:"a" help:"Also names that begin with a dot."`
	Before     int    `short:"B" placeholder:"N" help:"Lines to show before each match."`
	After      int    `short:"A" placeholder:"N" help:"Lines to show after each match."`
	Limit      int    `short:"n" placeholder:"N" help:"At most this many matches, up to 1000; 100 by default."`
	cli.FormFlags
	Session string `arg:"" help:"Session: its name, its id or a prefix of the id."`
	Pattern string `arg:"" help:"A regular expression in RE2's syntax."`
	Path    string `arg:"" type:"inside" optional:"" default:"/workspace" help:"A directory or file."`
}

func (grepCmd) Help() string { return "Exits with 1 if nothing matches." }

func (c grepCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	found, err := cl.Session(c.Session).Grep(ctx, c.Pattern, &sandkasten.GrepOptions{
		Path: c.Path, Literal: c.Literal, IgnoreCase: c.IgnoreCase, Include: c.Include,
		Hidden: c.Hidden, Before: c.Before, After: c.After, Limit: c.Limit,
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return show.JSON(a.Out, found)
	}
	if done, err := c.Done(a, found.Matches); done {
		return err
	}
	if _, err := io.WriteString(a.Out, grepText(found.Matches)); err != nil {
		return err
	}
	sayTruncated(a, found.Truncated)
	if found.Binary > 0 {
		a.Say("sandkasten: %d of %d files are binary and were passed over", found.Binary, found.Files)
	}
	if len(found.Matches) == 0 {
		return cli.CodeError(cli.ExitFailed)
	}
	return nil
}

// grepText shows matches as grep -n does.
func grepText(matches []sandkasten.Match) string {
	var b strings.Builder
	for _, m := range matches {
		line := func(number int, mark, text string) {
			if m.Path != "" {
				b.WriteString(show.Printable(m.Path) + mark)
			}
			fmt.Fprintf(&b, "%d%s%s\n", number, mark, show.Visible(text, "\t"))
		}
		for i, text := range m.Before {
			line(m.Line-len(m.Before)+i, "-", text)
		}
		line(m.Line, ":", m.Text)
		for i, text := range m.After {
			line(m.Line+1+i, "-", text)
		}
		if len(m.Before)+len(m.After) > 0 {
			b.WriteString("--\n")
		}
	}
	return b.String()
}

type watchCmd struct {
	Recursive bool   `short:"r" help:"Also the directories below."`
	JSON      bool   `name:"json" help:"Print JSON, one line for each change."`
	Session   string `arg:"" help:"Session: its name, its id or a prefix of the id."`
	Path      string `arg:"" type:"inside" optional:"" default:"/workspace" help:"A directory."`
}

func (c watchCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	for change, err := range cl.Session(c.Session).Watch(ctx, c.Path, &sandkasten.WatchOptions{Recursive: c.Recursive}) {
		if err == nil {
			err = c.print(a, change)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c watchCmd) print(a *cli.App, change sandkasten.Change) error {
	if c.JSON {
		return json.NewEncoder(a.Out).Encode(change)
	}
	text := change.Op
	if change.From != "" {
		text += " " + show.Printable(change.From) + " ->"
	}
	if change.Path != "" {
		text += " " + show.Printable(change.Path)
	}
	_, err := fmt.Fprintln(a.Out, text)
	return err
}

type tarCmd struct {
	Format  string `enum:"tar,tar.gz,tar.zst,zip" default:"tar.gz" help:"One of ${enum}."`
	Session string `arg:"" help:"Session: its name, its id or a prefix of the id."`
	Path    string `arg:"" type:"inside" optional:"" default:"/workspace" help:"A directory."`
}

func (c tarCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	archive, err := cl.Session(c.Session).DownloadArchive(ctx, c.Path, sandkasten.ArchiveFormat(c.Format))
	if err != nil {
		return err
	}
	defer archive.Close()
	return stream(a.Out, archive)
}

type untarCmd struct {
	Format  string `enum:"tar,tar.gz,tar.zst,zip" default:"tar.gz" help:"One of ${enum}."`
	Session string `arg:"" help:"Session: its name, its id or a prefix of the id."`
	Path    string `arg:"" type:"inside" optional:"" default:"/workspace" help:"The directory to unpack into."`
}

func (c untarCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	f, err := spoolInput(a.In)
	if err != nil {
		return err
	}
	left, err := countRemaining(f)
	if err != nil {
		return err
	}
	archive, end := show.Reading(a.Err, f, "unpack", left)
	defer end()
	defer archive.Close()
	o := &sandkasten.ArchiveOptions{Format: sandkasten.ArchiveFormat(c.Format), Size: left}
	done, err := cl.Session(c.Session).UploadArchive(ctx, c.Path, archive, o)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Out, "%d files, %d bytes\n", done.Files, done.Bytes)
	return err
}
