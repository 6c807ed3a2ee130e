package session

import (
	"context"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/session/check"
	"github.com/sandkasten/sandkasten/protocol"
)

// Mkdir makes a directory.
func (c *Files) Mkdir(ctx context.Context, p auth.Principal, id ID, r protocol.Mkdir) (err error) {
	e, err := c.reach(ctx, p, id)
	if err != nil {
		return err
	}
	if err := check.Mode(r.Mode); err != nil {
		return err
	}
	if r.Path, err = c.directory(e, r.Path); err != nil {
		return err
	}
	r.AllowOutside = c.reachesAll(e)
	return c.on(ctx, e, r.User, func(runner *runnerclient.Client) error { return runner.Mkdir(ctx, r) })
}

// Move renames a file or directory, in one step.
func (c *Files) Move(ctx context.Context, p auth.Principal, id ID, r protocol.Move) (err error) {
	e, err := c.reach(ctx, p, id)
	if err != nil {
		return err
	}
	if r.From, err = c.removable(e, "from", r.From); err != nil {
		return err
	}
	if r.To, err = c.removable(e, "to", r.To); err != nil {
		return err
	}
	r.AllowOutside = c.reachesAll(e)
	return c.on(ctx, e, r.User, func(runner *runnerclient.Client) error { return runner.Move(ctx, r) })
}

// Copy copies a file or, with r.Recursive, a directory.
func (c *Files) Copy(ctx context.Context, p auth.Principal, id ID, r protocol.Copy) (err error) {
	e, err := c.reach(ctx, p, id)
	if err != nil {
		return err
	}
	if r.From, err = c.runnerPath(e, "from", r.From); err != nil {
		return err
	}
	if r.To, err = c.removable(e, "to", r.To); err != nil {
		return err
	}
	r.AllowOutside = c.reachesAll(e)
	return c.on(ctx, e, r.User, func(runner *runnerclient.Client) error { return runner.Copy(ctx, r) })
}

// Remove removes a file, a link, an empty directory or, with r.Recursive,
// a directory with all that is in it.
func (c *Files) Remove(ctx context.Context, p auth.Principal, id ID, r protocol.Remove) (err error) {
	e, err := c.reach(ctx, p, id)
	if err != nil {
		return err
	}
	if r.Path, err = c.removable(e, "path", r.Path); err != nil {
		return err
	}
	r.AllowOutside = c.reachesAll(e)
	return c.on(ctx, e, r.User, func(runner *runnerclient.Client) error { return runner.Remove(ctx, r) })
}

// Chmod sets a mode; links are followed.
func (c *Files) Chmod(ctx context.Context, p auth.Principal, id ID, r protocol.Chmod) (err error) {
	e, err := c.reach(ctx, p, id)
	if err != nil {
		return err
	}
	if err := check.Mode(r.Mode); err != nil {
		return err
	}
	if r.Path, err = c.runnerPath(e, "path", r.Path); err != nil {
		return err
	}
	r.AllowOutside = c.reachesAll(e)
	return c.on(ctx, e, r.User, func(runner *runnerclient.Client) error { return runner.Chmod(ctx, r) })
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

// Edit replaces all of a text in a file, or changes nothing if the text
// is not there as often as it must.
func (c *Files) Edit(ctx context.Context, p auth.Principal, id ID, r EditRequest) (Edited, error) {
	e, err := c.reach(ctx, p, id)
	if err != nil {
		return Edited{}, err
	}
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
	path, err := c.runnerPath(e, "path", r.Path)
	if err != nil {
		return Edited{}, err
	}
	edit := protocol.Edit{Path: path, Count: r.Count, AllowOutside: c.reachesAll(e), User: r.User}
	var edited Edited
	err = c.on(ctx, e, r.User, func(runner *runnerclient.Client) error {
		done, diff, err := runner.Edit(ctx, edit, []byte(r.Old), []byte(r.New))
		edited = Edited{Replaced: done.Replaced, Diff: string(diff), DiffTruncated: done.DiffTruncated}
		return err
	})
	return edited, err
}
