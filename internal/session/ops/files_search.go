package ops

import (
	"context"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/session/check"
	"github.com/sandkasten/sandkasten/protocol"
)

// List returns a directory's entries, sorted by name, at most l.Max of
// those behind l.After, and whether there are more. It asks the runner as often
// as it takes to fill the page.
func (f *Files) List(ctx context.Context, p auth.Principal, id string, l protocol.List) (list protocol.Entries, err error) {
	s, err := f.find(ctx, p, id)
	if err != nil {
		return list, err
	}
	if err := check.List(l); err != nil {
		return list, err
	}
	if l.Path, err = directory(s, l.Path); err != nil {
		return list, err
	}
	l.AllowOutside = s.Now().AllFiles
	err = f.on(ctx, s, l.User, func(runner *runnerclient.Client) error {
		for {
			page, err := runner.List(ctx, l)
			if err != nil {
				return err
			}
			list.Entries = append(list.Entries, page.Entries...)
			list.Truncated, list.Next = page.Truncated, page.Next
			l.Max -= len(page.Entries)
			if !page.Truncated || l.Max == 0 || len(page.Entries) == 0 || len(page.Next) == 0 {
				return nil
			}
			l.After = page.Next
		}
	})
	return list, err
}

// Glob returns the files that match a pattern, at most g.Max.
func (f *Files) Glob(ctx context.Context, p auth.Principal, id string, g protocol.Glob) (list protocol.Entries, err error) {
	s, err := f.find(ctx, p, id)
	if err != nil {
		return list, err
	}
	if err := check.Glob(g); err != nil {
		return list, err
	}
	if g.Path, err = directory(s, g.Path); err != nil {
		return list, err
	}
	g.AllowOutside = s.Now().AllFiles
	return answerOf(ctx, f, s, g.User, func(runner *runnerclient.Client) (protocol.Entries, error) { return runner.Glob(ctx, g) })
}

// Grep returns the lines that match a pattern, at most g.Max.
func (f *Files) Grep(ctx context.Context, p auth.Principal, id string, g protocol.Grep) (found protocol.Matches, err error) {
	s, err := f.find(ctx, p, id)
	if err != nil {
		return found, err
	}
	if err := check.Grep(g); err != nil {
		return found, err
	}
	if g.Path, err = directory(s, g.Path); err != nil {
		return found, err
	}
	g.AllowOutside = s.Now().AllFiles
	return answerOf(ctx, f, s, g.User, func(runner *runnerclient.Client) (protocol.Matches, error) { return runner.Grep(ctx, g) })
}
