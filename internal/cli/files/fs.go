package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// Cmd works on the files of a session without a command in its shell.
type Cmd struct {
	Ls    lsCmd    `cmd:"" help:"List a directory."`
	Stat  statCmd  `cmd:"" help:"Describe a file."`
	Cat   catCmd   `cmd:"" help:"Print files."`
	Write writeCmd `cmd:"" help:"Write standard input to a file."`
	Edit  editCmd  `cmd:"" help:"Replace text in a file."`
	Mkdir mkdirCmd `cmd:"" help:"Make directories."`
	Mv    mvCmd    `cmd:"" help:"Rename a file or directory."`
	Cp    cpCmd    `cmd:"" help:"Copy a file or directory inside."`
	Rm    rmCmd    `cmd:"" help:"Remove files and directories."`
	Chmod chmodCmd `cmd:"" help:"Change modes."`
	Find  findCmd  `cmd:"" help:"Find files by name."`
	Grep  grepCmd  `cmd:"" help:"Find lines by their text."`
	Watch watchCmd `cmd:"" help:"Follow the changes in a directory."`
	Tar   tarCmd   `cmd:"" help:"Write a directory as an archive to standard output."`
	Untar untarCmd `cmd:"" help:"Unpack an archive from standard input."`
}

// Help is for kong.
func (Cmd) Help() string {
	return `Paths are below /workspace, absolute or relative to it. These commands do not wait
for the session's shells. To copy files between this machine and a session, use
sandkasten cp.

  sandkasten fs ls $id src
  sandkasten fs grep $id 'func \w+' src --include '*.go'
  sandkasten fs tar $id project > project.tar.gz`
}

type mkdirCmd struct {
	Parents bool     `short:"p" help:"Also make those above, and accept an existing directory."`
	Mode    string   `short:"m" placeholder:"MODE" help:"Mode in octal; 0755 by default."`
	Session string   `arg:"" help:"Session: its name, its id or a prefix of the id."`
	Paths   []string `arg:"" type:"inside" name:"path" help:"Directories."`
}

func (c mkdirCmd) Run(ctx context.Context, cl *sandkasten.Client) error {
	mode, err := parseMode(c.Mode)
	if err != nil {
		return err
	}
	return each(c.Paths, func(path string) error {
		return cl.Session(c.Session).MakeDir(ctx, path, &sandkasten.MakeDirOptions{Mode: mode, Parents: c.Parents})
	})
}

type mvCmd struct {
	Force   bool   `short:"f" help:"Replace what is there."`
	Session string `arg:"" help:"Session: its name, its id or a prefix of the id."`
	From    string `arg:"" type:"inside" help:"What to rename."`
	To      string `arg:"" type:"inside" help:"New path, or a directory to move it into."`
}

func (c mvCmd) Run(ctx context.Context, cl *sandkasten.Client) error {
	inside := &cl.Session(c.Session).Files
	to, err := target(ctx, inside, c.From, c.To)
	if err != nil {
		return err
	}
	return inside.Move(ctx, c.From, to, &sandkasten.MoveOptions{Overwrite: c.Force})
}

type cpCmd struct {
	Recursive bool   `short:"r" help:"Needed for a directory."`
	Force     bool   `short:"f" help:"Replace what is there."`
	Session   string `arg:"" help:"Session: its name, its id or a prefix of the id."`
	From      string `arg:"" type:"inside" help:"What to copy."`
	To        string `arg:"" type:"inside" help:"New path, or a directory to copy it into."`
}

func (c cpCmd) Run(ctx context.Context, cl *sandkasten.Client) error {
	inside := &cl.Session(c.Session).Files
	to, err := target(ctx, inside, c.From, c.To)
	if err != nil {
		return err
	}
	return inside.Copy(ctx, c.From, to, &sandkasten.CopyOptions{Recursive: c.Recursive, Overwrite: c.Force})
}

type rmCmd struct {
	Recursive bool     `short:"r" help:"Also remove directories and their contents."`
	Session   string   `arg:"" help:"Session: its name, its id or a prefix of the id."`
	Paths     []string `arg:"" type:"inside" name:"path" help:"Files, links or directories."`
}

func (c rmCmd) Run(ctx context.Context, cl *sandkasten.Client) error {
	return each(c.Paths, func(path string) error {
		return cl.Session(c.Session).Remove(ctx, path, &sandkasten.RemoveOptions{Recursive: c.Recursive})
	})
}

type chmodCmd struct {
	Recursive bool     `short:"r" help:"Also what is below."`
	Session   string   `arg:"" help:"Session: its name, its id or a prefix of the id."`
	Mode      string   `arg:"" help:"In octal, like 0755."`
	Paths     []string `arg:"" type:"inside" name:"path" help:"Files and directories; links are followed."`
}

func (c chmodCmd) Run(ctx context.Context, cl *sandkasten.Client) error {
	mode, err := parseMode(c.Mode)
	if err != nil {
		return err
	}
	return each(c.Paths, func(path string) error {
		return cl.Session(c.Session).Chmod(ctx, path, mode, &sandkasten.ChmodOptions{Recursive: c.Recursive})
	})
}

type editCmd struct {
	Count   int    `short:"n" placeholder:"N" help:"Change nothing unless the file has the text this many times; by default at least once."`
	Session string `arg:"" help:"Session: its name, its id or a prefix of the id."`
	Path    string `arg:"" type:"inside" help:"A file."`
	Old     string `arg:"" help:"The exact text in the file."`
	New     string `arg:"" help:"What takes its place."`
}

func (editCmd) Help() string {
	return `Prints the change as a diff.

  sandkasten fs edit $id main.go 'hello' 'goodbye'`
}

func (c editCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	done, err := cl.Session(c.Session).Edit(ctx, c.Path, c.Old, c.New, &sandkasten.EditOptions{Count: c.Count})
	if err != nil {
		return err
	}
	if done.DiffTruncated {
		a.Say("sandkasten: the change is larger than the diff that follows")
	}
	_, err = fmt.Fprint(a.Out, showText(a, done.Diff))
	return err
}

type catCmd struct {
	Raw     bool     `help:"Send files unchanged to a terminal too. By default a terminal shows control characters, such as \\x1b; files and pipes always get them unchanged."`
	Session string   `arg:"" help:"Session: its name, its id or a prefix of the id."`
	Paths   []string `arg:"" type:"inside" name:"path" help:"Files."`
}

func (c catCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	return each(c.Paths, func(path string) error {
		content, err := cl.Session(c.Session).Read(ctx, path, nil)
		if err != nil {
			return err
		}
		return errors.Join(output(a, content, c.Raw), content.Close())
	})
}

type writeCmd struct {
	Mode    string `short:"m" placeholder:"MODE" help:"Mode in octal; by default the file's own, or 0644."`
	Create  bool   `xor:"how" help:"Refuse to replace a file."`
	Append  bool   `short:"a" xor:"how" help:"Add to the end of the file."`
	Session string `arg:"" help:"Session: its name, its id or a prefix of the id."`
	Path    string `arg:"" type:"inside" help:"The file."`
}

func (writeCmd) Help() string {
	return `Also makes the directories above the file.

  echo hello | sandkasten fs write $id greeting.txt`
}

func (c writeCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	mode, err := parseMode(c.Mode)
	if err != nil {
		return err
	}
	f, err := spoolInput(a.In)
	if err != nil {
		return err
	}
	t := transfer{a: a, inside: &cl.Session(c.Session).Files}
	return t.send(ctx, f, c.Path, sandkasten.WriteOptions{Mode: mode, Create: c.Create, Append: c.Append})
}

// parseMode reads a mode; 0 is none. Which bits there may be is the daemon's to say.
func parseMode(text string) (fs.FileMode, error) {
	mode, err := strconv.ParseUint("0"+text, 8, 32)
	if err != nil {
		return 0, cli.Wrong("the mode is %q: write it in octal, like 0644", text)
	}
	return fs.FileMode(mode), nil
}

// target is the path that from gets: below to if that is a directory.
func target(ctx context.Context, inside *sandkasten.Files, from, to string) (string, error) {
	t := transfer{inside: inside}
	return t.insideTarget(ctx, to, lastName(from))
}

// lastName is what a path inside is called.
func lastName(path string) string {
	path = strings.TrimRight(path, "/")
	return path[strings.LastIndexByte(path, '/')+1:]
}

// each does something to every path, up to the first error.
func each(paths []string, do func(path string) error) error {
	for _, path := range paths {
		if err := do(path); err != nil {
			if len(paths) > 1 && !strings.Contains(err.Error(), strconv.Quote(path)) {
				return fmt.Errorf("%s: %w", show.Printable(path), err)
			}
			return err
		}
	}
	return nil
}

// showText returns text of a sandbox as it may go to standard output: a terminal
// obeys control characters, a file does not mind them.
func showText(a *cli.App, text string) string {
	if show.IsTerminal(a.Out) {
		return show.Visible(text, "\n\t")
	}
	return text
}
