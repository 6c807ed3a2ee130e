package session

import (
	"context"
	"regexp/syntax"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/session/check"
	"github.com/sandkasten/sandkasten/protocol"
)

// Limits of what one answer about many files has.
const (
	MaxListed  = 10_000 // entries of a listing or a glob
	MaxMatches = 1000   // of a grep
	MaxContext = 50     // lines around each, on either side
)

// List returns a directory's entries, sorted by name, at most l.Max of
// those behind l.After, and whether there are more. It asks the runner as often
// as it takes to fill the page.
func (c *Files) List(ctx context.Context, p auth.Principal, id ID, l protocol.List) (list protocol.Entries, err error) {
	e, err := c.reach(ctx, p, id)
	if err != nil {
		return list, err
	}
	switch {
	case l.Max < 1 || l.Max > MaxListed:
		return list, errdefs.Invalid("limit", "must be from 1 to %d", MaxListed)
	case l.Depth < -1:
		return list, errdefs.Invalid("depth", "must be at least 1, or -1 for all")
	case len(l.After) > 0 && !check.IsBelow(string(l.After)):
		return list, errdefs.Invalid("cursor", "must be next_cursor of an answer to this listing")
	}
	if l.Path, err = c.directory(e, l.Path); err != nil {
		return list, err
	}
	l.AllowOutside = c.reachesAll(e)
	err = c.on(ctx, e, l.User, func(runner *runnerclient.Client) error {
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
func (c *Files) Glob(ctx context.Context, p auth.Principal, id ID, g protocol.Glob) (list protocol.Entries, err error) {
	e, err := c.reach(ctx, p, id)
	if err != nil {
		return list, err
	}
	if g.Max < 1 || g.Max > MaxListed {
		return list, errdefs.Invalid("limit", "must be from 1 to %d", MaxListed)
	}
	if err := check.Pattern("pattern", g.Pattern); err != nil {
		return list, err
	}
	if g.Path, err = c.directory(e, g.Path); err != nil {
		return list, err
	}
	g.AllowOutside = c.reachesAll(e)
	err = c.on(ctx, e, g.User, func(runner *runnerclient.Client) (err error) {
		list, err = runner.Glob(ctx, g)
		return err
	})
	return list, err
}

// Grep returns the lines that match a pattern, at most g.Max.
func (c *Files) Grep(ctx context.Context, p auth.Principal, id ID, g protocol.Grep) (found protocol.Matches, err error) {
	e, err := c.reach(ctx, p, id)
	if err != nil {
		return found, err
	}
	switch {
	case g.Max < 1 || g.Max > MaxMatches:
		return found, errdefs.Invalid("limit", "must be from 1 to %d", MaxMatches)
	case g.Before < 0 || g.Before > MaxContext:
		return found, errdefs.Invalid("before", "must be from 0 to %d", MaxContext)
	case g.After < 0 || g.After > MaxContext:
		return found, errdefs.Invalid("after", "must be from 0 to %d", MaxContext)
	}
	if err := check.Pattern("pattern", g.Pattern); err != nil {
		return found, err
	}
	if !g.Literal {
		if _, err := syntax.Parse(g.Pattern, syntax.Perl); err != nil {
			return found, errdefs.Invalid("pattern", "must be a regular expression in RE2's syntax, or literal must be set: %v", err)
		}
	}
	if g.Include != "" {
		if err := check.Pattern("include", g.Include); err != nil {
			return found, err
		}
	}
	if g.Path, err = c.directory(e, g.Path); err != nil {
		return found, err
	}
	g.AllowOutside = c.reachesAll(e)
	err = c.on(ctx, e, g.User, func(runner *runnerclient.Client) (err error) {
		found, err = runner.Grep(ctx, g)
		return err
	})
	return found, err
}
