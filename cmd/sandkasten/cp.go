package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/sandkasten/sandkasten/internal/client"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

type cpCmd struct {
	From string `arg:"" help:"A local path, or SESSION:PATH."`
	To   string `arg:"" help:"A local path, or SESSION:PATH."`
}

func (cpCmd) Help() string {
	return `Paths inside are below /workspace, and relative ones begin there. As with cp -r:
a directory takes its contents along, a target that is a directory gets the
source put into it, and any other target is the new name. Links and special
files are left out.

  sandkasten cp data.csv $id:
  sandkasten cp ./project $id:/workspace/
  sandkasten cp $id:/workspace/result.json .
  sandkasten cp $id:/workspace/project ./copy`
}

func (c cpCmd) Run(ctx context.Context, a *app) error {
	cl, err := a.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	return a.copy(ctx, cl, remote{"SESSION", "/."}, c.From, c.To)
}

// remote is how a path on the other side is written.
type remote struct {
	noun  string // what comes before its colon
	never string // characters that this never has: it is a local path, then
}

// copy copies between this side and the one that cl's calls for files reach.
func (a *app) copy(ctx context.Context, cl *client.Client, r remote, from, to string) error {
	fromID, fromPath, fromInside := r.split(from)
	toID, toPath, toInside := r.split(to)
	if fromInside == toInside {
		return fmt.Errorf("one of the two has to be %s:PATH", r.noun)
	}
	var skipped int
	var err error
	if fromInside {
		skipped, err = copyOut(ctx, cl, fromID, fromPath, to)
	} else {
		skipped, err = copyIn(ctx, cl, from, toID, toPath)
	}
	if skipped > 0 {
		a.say("%d links and special files were left out", skipped)
	}
	return err
}

// split takes SESSION:PATH apart. Anything with a slash before the colon is a
// local path, so ./a:b names a file.
func (r remote) split(arg string) (id, file string, ok bool) {
	id, file, ok = strings.Cut(arg, ":")
	if !ok || id == "" || strings.ContainsAny(id, r.never) {
		return "", "", false
	}
	return id, file, true
}

// copyIn sends a file or a directory.
func copyIn(ctx context.Context, cl *client.Client, from, id, to string) (skipped int, err error) {
	info, err := os.Stat(from)
	if err != nil {
		return 0, err
	}
	whole, err := filepath.Abs(from) // "." has a name, too
	if err != nil {
		return 0, err
	}
	to, err = insideTarget(ctx, cl, id, to, filepath.Base(whole))
	if err != nil {
		return 0, err
	}
	if !info.IsDir() {
		return 0, sendFile(ctx, cl, id, whole, to)
	}
	err = filepath.WalkDir(whole, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return nil
		case !d.Type().IsRegular():
			skipped++
			return nil
		}
		relative, err := filepath.Rel(whole, name)
		if err != nil {
			return err
		}
		return sendFile(ctx, cl, id, name, path.Join(to, filepath.ToSlash(relative)))
	})
	return skipped, err
}

// insideTarget is the path that name gets: below to, if that is a directory
// or says so with a slash, and otherwise to itself.
func insideTarget(ctx context.Context, cl *client.Client, id, to, name string) (string, error) {
	if to == "" {
		to = "/workspace/"
	}
	if strings.HasSuffix(to, "/") {
		return path.Join(to, name), nil
	}
	_, _, err := cl.List(ctx, id, to)
	if refused, ok := errors.AsType[*client.Error](err); ok && refused.Status < http.StatusInternalServerError && refused.Code != string(errdefs.Unauthenticated) {
		return to, nil // no directory; writing there says what else is wrong
	}
	return path.Join(to, name), err
}

// sendFile writes one file with its mode.
func sendFile(ctx context.Context, cl *client.Client, id, from, to string) (err error) {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() <= client.MaxWrite {
		content, err := io.ReadAll(io.LimitReader(f, client.MaxWrite+1))
		if err != nil {
			return err
		}
		return cl.Write(ctx, id, to, info.Mode(), content)
	}
	// An upload keeps the mode of a file that exists.
	if err := cl.Write(ctx, id, to, info.Mode(), nil); err != nil {
		return err
	}
	return cl.Upload(ctx, id, to, f)
}

// copyOut fetches a file or a directory.
func copyOut(ctx context.Context, cl *client.Client, id, from, to string) (skipped int, err error) {
	if from == "" {
		from = "/workspace"
	}
	if info, err := os.Stat(to); err == nil && info.IsDir() || strings.HasSuffix(to, "/") {
		to = filepath.Join(to, path.Base(path.Join("/workspace", from)))
	}
	entries, truncated, err := cl.List(ctx, id, from)
	if refused, ok := errors.AsType[*client.Error](err); ok && refused.Status < http.StatusInternalServerError {
		return 0, fetchFile(ctx, cl, id, from, to)
	}
	if err != nil {
		return 0, err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return 0, err
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	t := treeCopy{cl: cl, id: id, root: root}
	err = t.directory(ctx, from, ".", entries, truncated)
	return t.skipped, err
}

// fetchFile replaces a local file when the whole of the other has arrived.
func fetchFile(ctx context.Context, cl *client.Client, id, from, to string) error {
	content, err := cl.Read(ctx, id, from)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(to), ".sandkasten-*")
	if err != nil {
		return errors.Join(err, content.Close())
	}
	_, err = io.Copy(f, content)
	err = errors.Join(err, content.Close(), f.Chmod(content.Mode), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), to)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// treeCopy fetches a directory. What is in it was named by a sandbox, so it
// is written through an os.Root, which nothing leaves.
type treeCopy struct {
	cl      *client.Client
	id      string
	root    *os.Root
	skipped int
}

func (t *treeCopy) directory(ctx context.Context, from, to string, entries []client.Entry, truncated bool) error {
	if truncated {
		return fmt.Errorf("%s has too many files to list; pack it inside and copy the archive", printable(from))
	}
	for _, e := range entries {
		if e.Name == "" || e.Name == "." || e.Name == ".." || strings.ContainsAny(e.Name, "/\x00") {
			return fmt.Errorf("the daemon lists a file with the name %q", e.Name)
		}
		inside, local := path.Join(from, e.Name), filepath.Join(to, e.Name)
		switch e.Type {
		case "dir":
			if err := t.subdirectory(ctx, inside, local); err != nil {
				return err
			}
		case "file":
			if err := t.file(ctx, inside, local); err != nil {
				return fmt.Errorf("%s: %w", printable(inside), err)
			}
		default:
			t.skipped++
		}
	}
	return nil
}

func (t *treeCopy) subdirectory(ctx context.Context, from, to string) error {
	entries, truncated, err := t.cl.List(ctx, t.id, from)
	if err != nil {
		return err
	}
	if err := t.root.Mkdir(to, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return t.directory(ctx, from, to, entries, truncated)
}

func (t *treeCopy) file(ctx context.Context, from, to string) (err error) {
	content, err := t.cl.Read(ctx, t.id, from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	f, err := t.root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, content.Mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}
