package files

import (
	"context"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/protocol"
)

// Mkdir makes a directory.
func (f *Files[ID]) Mkdir(ctx context.Context, id ID, r protocol.Mkdir) (err error) {
	if err := checkMode(r.Mode); err != nil {
		return err
	}
	if r.Path, err = f.Directory(id, r.Path); err != nil {
		return err
	}
	r.AllowOutside = f.opts.Anywhere(id)
	return f.on(ctx, id, r.User, func(c *runnerclient.Client) error { return c.Mkdir(ctx, r) })
}

// MoveFile renames a file or directory, in one step.
func (f *Files[ID]) MoveFile(ctx context.Context, id ID, r protocol.Move) (err error) {
	if r.From, err = f.removable(id, "from", r.From); err != nil {
		return err
	}
	if r.To, err = f.removable(id, "to", r.To); err != nil {
		return err
	}
	r.AllowOutside = f.opts.Anywhere(id)
	return f.on(ctx, id, r.User, func(c *runnerclient.Client) error { return c.Move(ctx, r) })
}

// CopyFile copies a file or, with r.Recursive, a directory.
func (f *Files[ID]) CopyFile(ctx context.Context, id ID, r protocol.Copy) (err error) {
	if r.From, err = f.RunnerPath(id, "from", r.From); err != nil {
		return err
	}
	if r.To, err = f.removable(id, "to", r.To); err != nil {
		return err
	}
	r.AllowOutside = f.opts.Anywhere(id)
	return f.on(ctx, id, r.User, func(c *runnerclient.Client) error { return c.Copy(ctx, r) })
}

// RemoveFile removes a file, a link, an empty directory or, with r.Recursive,
// a directory with all that is in it.
func (f *Files[ID]) RemoveFile(ctx context.Context, id ID, r protocol.Remove) (err error) {
	if r.Path, err = f.removable(id, "path", r.Path); err != nil {
		return err
	}
	r.AllowOutside = f.opts.Anywhere(id)
	return f.on(ctx, id, r.User, func(c *runnerclient.Client) error { return c.Remove(ctx, r) })
}

// ChmodFile sets a mode; links are followed.
func (f *Files[ID]) ChmodFile(ctx context.Context, id ID, r protocol.Chmod) (err error) {
	if err := checkMode(r.Mode); err != nil {
		return err
	}
	if r.Path, err = f.RunnerPath(id, "path", r.Path); err != nil {
		return err
	}
	r.AllowOutside = f.opts.Anywhere(id)
	return f.on(ctx, id, r.User, func(c *runnerclient.Client) error { return c.Chmod(ctx, r) })
}

// EditRequest replaces text in a file.
type EditRequest struct {
	Path     string
	User     string // whose rights hold; "" is the sandbox's own
	Old, New string // up to protocol.MaxCommand bytes each
	Count    int    // how often Old must be there; 0 is once or more
}

// Edited is what an edit did.
type Edited struct {
	Replaced      int
	Diff          string // unified
	DiffTruncated bool
}

// EditFile replaces all of a text in a file, or changes nothing if the text
// is not there as often as it must.
func (f *Files[ID]) EditFile(ctx context.Context, id ID, r EditRequest) (Edited, error) {
	switch {
	case r.Old == "":
		return Edited{}, errdefs.Invalid("old", "must not be empty; write the file to fill it")
	case len(r.Old) > protocol.MaxCommand:
		return Edited{}, errdefs.OverLimit("old", protocol.MaxCommand)
	case len(r.New) > protocol.MaxCommand:
		return Edited{}, errdefs.OverLimit("new", protocol.MaxCommand)
	case r.Count < 0:
		return Edited{}, errdefs.Invalid("count", "must not be negative")
	}
	path, err := f.RunnerPath(id, "path", r.Path)
	if err != nil {
		return Edited{}, err
	}
	edit := protocol.Edit{Path: path, Count: r.Count, AllowOutside: f.opts.Anywhere(id), User: r.User}
	var edited Edited
	err = f.on(ctx, id, r.User, func(c *runnerclient.Client) error {
		done, diff, err := c.Edit(ctx, edit, []byte(r.Old), []byte(r.New))
		edited = Edited{Replaced: done.Replaced, Diff: string(diff), DiffTruncated: done.DiffTruncated}
		return err
	})
	return edited, err
}
