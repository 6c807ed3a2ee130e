// Package files is the subcommands that work on a session's files: cp, and those
// of fs. How directories become archives and back is in package tree.
package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/internal/tree"
	"github.com/sandkasten/sandkasten/protocol"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// CopyCmd copies between here and a session.
type CopyCmd struct {
	cli.FormFlags

	From string `arg:"" help:"A local path, SESSION:PATH, or - for standard input."`
	To   string `arg:"" help:"A local path, SESSION:PATH, or - for standard output."`
}

// Help is for kong.
func (CopyCmd) Help() string {
	return `Paths inside are below /workspace, absolute or relative to it. As with cp -r,
directories are copied with their contents, a target that is a directory receives
the source, and any other target is the new name. Modes, links and times stay.
Special files are left out, and so are links that lead out of a directory copied
from a session.

  sandkasten cp data.csv $id:
  sandkasten cp ./project $id:/workspace/
  sandkasten cp $id:/workspace/result.json .
  sandkasten cp $id:/workspace/project ./copy
  date | sandkasten cp - $id:started
  sandkasten cp --format '{{.To}}' ./project $id:
  sandkasten cp $id:log.txt - | tail`
}

// Run copies.
func (c CopyCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	r := Remote{Noun: "SESSION", Never: "/.", Files: func(id string) *sandkasten.Files { return &cl.Session(id).Files }}
	return Copy(ctx, a, r, c.From, c.To, c.FormFlags)
}

// Remote is how a path on the other side is written.
type Remote struct {
	Noun  string // what comes before its colon
	Never string // characters that this never has: it is a local path, then

	Files func(id string) *sandkasten.Files // of what has an id
}

// copied is what a copy has done, for programs.
type copied struct {
	From    string `json:"from"`
	To      string `json:"to"` // the path that it got: a directory has it put into it
	Skipped int    `json:"skipped"`
}

// Copy copies between this side and another, and prints what it has done if form
// says so.
func Copy(ctx context.Context, a *cli.App, r Remote, from, to string, form cli.FormFlags) error {
	fromID, fromPath, fromInside := r.split(from)
	toID, toPath, toInside := r.split(to)
	if fromInside == toInside {
		return cli.Wrong("one of the two has to be %s:PATH", r.Noun)
	}
	if form.Wanted() && to == standard {
		return cli.Wrong("standard output gets the file: leave --json and --format out")
	}
	copying := transfer{a: a}
	var err error
	if fromInside {
		copying.inside = r.Files(fromID)
		err = copying.out(ctx, fromPath, to)
	} else {
		copying.inside = r.Files(toID)
		err = copying.in(ctx, from, toPath)
	}
	if copying.skipped > 0 {
		a.Say("%d links and special files were left out", copying.skipped)
	}
	if err != nil {
		return err
	}
	_, err = form.Done(a, copied{From: from, To: copying.target, Skipped: copying.skipped})
	return err
}

// split takes SESSION:PATH apart. Anything with a slash before the colon is a
// local path, so ./a:b names a file.
func (r Remote) split(arg string) (id, file string, ok bool) {
	id, file, ok = strings.Cut(arg, ":")
	if !ok || id == "" || strings.ContainsAny(id, r.Never) {
		return "", "", false
	}
	return id, InsidePath(file), true
}

// InsidePath is a path of a session as the API has it. One that is text stays as it is: it
// may be escaped already.
func InsidePath(path string) string {
	if utf8.ValidString(path) {
		return path
	}
	return protocol.EscapeName(path)
}

// standard is the name of standard input and output.
const standard = "-"

// transfer copies between here and one session or workspace.
type transfer struct {
	a       *cli.App
	inside  *sandkasten.Files
	target  string // where the copy is
	skipped int
}

// in sends a file or a directory.
func (t *transfer) in(ctx context.Context, from, to string) error {
	if from == standard {
		return t.standardIn(ctx, to)
	}
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	whole, err := filepath.Abs(from) // "." has a name, too
	if err != nil {
		return err
	}
	to, err = t.insideTarget(ctx, to, protocol.EscapeName(filepath.Base(whole)))
	if err != nil {
		return err
	}
	t.target = to
	if info.IsDir() {
		return t.sendTree(ctx, whole, to)
	}
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	return t.send(ctx, f, to, sandkasten.WriteOptions{Mode: info.Mode(), ModifiedAt: info.ModTime()})
}

// standardIn sends what standard input has.
func (t *transfer) standardIn(ctx context.Context, to string) error {
	if to == "" || strings.HasSuffix(to, "/") {
		return cli.Wrong("standard input has no name: write the path inside, as SESSION:PATH")
	}
	t.target = to
	f, err := spoolInput(t.a.In)
	if err != nil {
		return err
	}
	return t.send(ctx, f, to, sandkasten.WriteOptions{})
}

// send writes a local file, which it closes.
func (t *transfer) send(ctx context.Context, f *os.File, to string, o sandkasten.WriteOptions) error {
	left, err := countRemaining(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	content, done := show.Reading(t.a.Err, f, path.Base(to), left)
	defer done()
	o.Size = left
	return errors.Join(t.inside.Write(ctx, to, content, &o), content.Close())
}

// sendTree sends a directory.
func (t *transfer) sendTree(ctx context.Context, from, to string) error {
	plan, err := tree.Scan(from)
	if err != nil {
		return err
	}
	defer plan.Close()
	t.skipped = plan.Skipped
	reader, writer := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := plan.WriteTar(writer)
		written <- err
		writer.CloseWithError(err) // nil is the end of the body
	}()
	content, done := show.Reading(t.a.Err, reader, path.Base(to), plan.Size)
	defer done()
	_, err = t.inside.UploadArchive(ctx, to, content, &sandkasten.ArchiveOptions{Format: sandkasten.Tar, Size: plan.Size})
	// This ends the goroutine, if it has not ended: a write to a closed pipe
	// fails.
	closeErr := reader.Close()
	if writeErr := <-written; writeErr != nil && !errors.Is(writeErr, io.ErrClosedPipe) {
		return writeErr // the reason why the request broke off
	}
	return errors.Join(err, closeErr)
}

// insideTarget is the path that name gets: below to, if that is a directory
// or says so with a slash, and otherwise to itself.
func (t *transfer) insideTarget(ctx context.Context, to, name string) (string, error) {
	if to == "" {
		to = "/workspace/"
	}
	if strings.HasSuffix(to, "/") {
		return path.Join(to, name), nil
	}
	found, err := t.stat(ctx, to)
	switch {
	case errors.Is(err, sandkasten.ErrNotFound): // if it is the session, the next request says so
		return to, nil
	case err == nil && found.IsDir():
		return path.Join(to, name), nil
	}
	return to, err
}

// stat describes a file, or what a link leads to.
func (t *transfer) stat(ctx context.Context, name string) (sandkasten.Entry, error) {
	return t.inside.Stat(ctx, name, &sandkasten.StatOptions{Follow: true})
}

// out fetches a file or a directory.
func (t *transfer) out(ctx context.Context, from, to string) error {
	if from == "" {
		from = "/workspace"
	}
	if strings.HasSuffix(from, "/") && from != "/" {
		from = strings.TrimRight(from, "/")
	}
	found, err := t.stat(ctx, from)
	if err != nil {
		return err
	}
	if to == standard {
		if found.IsDir() {
			return fmt.Errorf("%s is a directory: `sandkasten fs tar` writes one to standard output", show.Printable(from))
		}
		return t.read(ctx, from, func(content io.Reader) error { return output(t.a, content, false) })
	}
	if info, err := os.Stat(to); err == nil && info.IsDir() || strings.HasSuffix(to, "/") {
		to = filepath.Join(to, protocol.UnescapeName(path.Base(path.Join("/workspace", from))))
	}
	t.target = to
	if found.IsDir() {
		return t.fetchTree(ctx, from, to, found.ModifiedAt)
	}
	return t.fetch(ctx, from, to, found.ModifiedAt)
}

// read passes on a file of the session, and shows how far it is.
func (t *transfer) read(ctx context.Context, from string, pass func(io.Reader) error) error {
	content, err := t.inside.Read(ctx, from, nil)
	if err != nil {
		return err
	}
	reader, done := show.Reading(t.a.Err, content, path.Base(from), content.Size)
	defer done()
	return errors.Join(pass(reader), reader.Close())
}

// fetch replaces a local file when the whole of the other has arrived, or fills what is no
// file, such as /dev/null and a pipe.
func (t *transfer) fetch(ctx context.Context, from, to string, changed time.Time) error {
	if info, err := os.Stat(to); err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(to, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(t.read(ctx, from, func(content io.Reader) error { return stream(f, content) }), f.Close())
	}
	if real, err := filepath.EvalSymlinks(to); err == nil {
		to = real
	}
	content, err := t.inside.Read(ctx, from, nil)
	if err != nil {
		return err
	}
	reader, done := show.Reading(t.a.Err, content, path.Base(from), content.Size)
	defer done()
	f, err := os.CreateTemp(filepath.Dir(to), ".sandkasten-*")
	if err != nil {
		return errors.Join(err, reader.Close())
	}
	err = errors.Join(stream(f, reader), reader.Close(), f.Chmod(content.Mode), f.Close())
	if err == nil {
		err = os.Chtimes(f.Name(), changed, changed)
	}
	if err == nil {
		err = os.Rename(f.Name(), to)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// fetchTree fetches a directory.
func (t *transfer) fetchTree(ctx context.Context, from, to string, changed time.Time) error {
	archive, err := t.inside.DownloadArchive(ctx, from, sandkasten.Tar)
	if err != nil {
		return err
	}
	reader, done := show.Reading(t.a.Err, archive, path.Base(from), unknownSize)
	defer done()
	if err := os.MkdirAll(to, 0o755); err != nil {
		return errors.Join(err, reader.Close())
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return errors.Join(err, reader.Close())
	}
	defer root.Close()
	t.skipped, err = tree.Unpack(root, reader)
	if err := errors.Join(err, reader.Close()); err != nil {
		return err
	}
	return os.Chtimes(to, changed, changed)
}
