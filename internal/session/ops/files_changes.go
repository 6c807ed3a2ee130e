package ops

import (
	"context"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/session/check"
	"github.com/sandkasten/sandkasten/protocol"
)

// Mkdir makes a directory.
func (f *Files) Mkdir(ctx context.Context, p auth.Principal, id string, r protocol.Mkdir) (err error) {
	s, err := f.find(ctx, p, id)
	if err != nil {
		return err
	}
	if err := check.Mode(r.Mode); err != nil {
		return err
	}
	if r.Path, err = directory(s, r.Path); err != nil {
		return err
	}
	r.AllowOutside = s.Now().AllFiles
	return f.on(ctx, s, r.User, func(runner *runnerclient.Client) error { return runner.Mkdir(ctx, r) })
}

// Move renames a file or directory, in one step.
func (f *Files) Move(ctx context.Context, p auth.Principal, id string, r protocol.Move) (err error) {
	s, err := f.find(ctx, p, id)
	if err != nil {
		return err
	}
	if r.From, err = removable(s, "from", r.From); err != nil {
		return err
	}
	if r.To, err = removable(s, "to", r.To); err != nil {
		return err
	}
	r.AllowOutside = s.Now().AllFiles
	return f.on(ctx, s, r.User, func(runner *runnerclient.Client) error { return runner.Move(ctx, r) })
}

// Copy copies a file or, with r.Recursive, a directory.
func (f *Files) Copy(ctx context.Context, p auth.Principal, id string, r protocol.Copy) (err error) {
	s, err := f.find(ctx, p, id)
	if err != nil {
		return err
	}
	if r.From, err = runnerPath(s, "from", r.From); err != nil {
		return err
	}
	if r.To, err = removable(s, "to", r.To); err != nil {
		return err
	}
	r.AllowOutside = s.Now().AllFiles
	return f.on(ctx, s, r.User, func(runner *runnerclient.Client) error { return runner.Copy(ctx, r) })
}

// Remove removes a file, a link, an empty directory or, with r.Recursive,
// a directory with all that is in it.
func (f *Files) Remove(ctx context.Context, p auth.Principal, id string, r protocol.Remove) (err error) {
	s, err := f.find(ctx, p, id)
	if err != nil {
		return err
	}
	if r.Path, err = removable(s, "path", r.Path); err != nil {
		return err
	}
	r.AllowOutside = s.Now().AllFiles
	return f.on(ctx, s, r.User, func(runner *runnerclient.Client) error { return runner.Remove(ctx, r) })
}

// Chmod sets a mode; links are followed.
func (f *Files) Chmod(ctx context.Context, p auth.Principal, id string, r protocol.Chmod) (err error) {
	s, err := f.find(ctx, p, id)
	if err != nil {
		return err
	}
	if err := check.Mode(r.Mode); err != nil {
		return err
	}
	if r.Path, err = runnerPath(s, "path", r.Path); err != nil {
		return err
	}
	r.AllowOutside = s.Now().AllFiles
	return f.on(ctx, s, r.User, func(runner *runnerclient.Client) error { return runner.Chmod(ctx, r) })
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
func (f *Files) Edit(ctx context.Context, p auth.Principal, id string, r EditRequest) (Edited, error) {
	s, err := f.find(ctx, p, id)
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
	path, err := runnerPath(s, "path", r.Path)
	if err != nil {
		return Edited{}, err
	}
	edit := protocol.Edit{Path: path, Count: r.Count, AllowOutside: s.Now().AllFiles, User: r.User}
	var edited Edited
	err = f.on(ctx, s, r.User, func(runner *runnerclient.Client) error {
		done, diff, err := runner.Edit(ctx, edit, []byte(r.Old), []byte(r.New))
		edited = Edited{Replaced: done.Replaced, Diff: string(diff), DiffTruncated: done.DiffTruncated}
		return err
	})
	return edited, err
}
