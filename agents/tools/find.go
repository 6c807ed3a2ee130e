package tools

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/sandkasten/sandkasten/sdk/go"
)

type match struct {
	Path   string   `json:"path"`
	Line   int      `json:"line"`
	Text   string   `json:"text"`
	Before []string `json:"before,omitempty"`
	After  []string `json:"after,omitempty"`
}

// size is about what a model reads of a match.
func (m match) size() int {
	size := len(m.Path) + len(m.Text)
	for _, lines := range [][]string{m.Before, m.After} {
		for _, line := range lines {
			size += len(line)
		}
	}
	return size
}

type grepAnswer struct {
	Matches   []match `json:"matches"`
	Binary    int     `json:"binary_files_skipped,omitempty"`
	Truncated bool    `json:"truncated,omitempty"`
	Hint      string  `json:"hint,omitempty"`
}

func grepTool(ctx context.Context, c *call) (any, error) {
	session, place, err := c.at(ctx, "path")
	if err != nil {
		return nil, err
	}
	lines := int(c.number("context", 0))
	found, err := session.Grep(ctx, c.text("pattern"), &sandkasten.GrepOptions{
		Path: place, Literal: c.flag("literal", false), IgnoreCase: c.flag("ignore_case", false), Include: c.text("include"),
		Before: lines, After: lines, Limit: int(c.number("limit", maxMatches)),
	})
	if err != nil {
		return nil, err
	}
	answer := grepAnswer{Matches: []match{}, Binary: found.Binary, Truncated: found.Truncated}
	total := 0
	for _, m := range found.Matches {
		text, _ := shorten(m.Text, 500, "a long line")
		one := match{shownPath(place, m.Path), m.Line, text, m.Before, m.After}
		if total += one.size(); total > c.set.opts.MaxBytes {
			answer.Truncated = true
			if len(answer.Matches) > 0 {
				break
			}
			one.Before, one.After = nil, nil // where the first one is tells how to go on
		}
		answer.Matches = append(answer.Matches, one)
	}
	if answer.Truncated {
		answer.Hint = "there are more; send a narrower pattern, path or include, or less context"
	}
	return answer, nil
}

// shownPath is a path of the daemon's as calls take it.
func shownPath(dir, name string) string {
	if path.IsAbs(name) {
		return relative(name)
	}
	return relative(path.Join(dir, name))
}

// globPattern is a pattern below a directory. Those of the workspace may be written as
// its paths may: /workspace/*.py, workspace/*.py and *.py are one pattern.
func globPattern(dir, pattern string) (string, error) {
	if slices.Contains(strings.Split(pattern, "/"), "..") {
		return "", wrongInput("pattern must not contain ..: write it from path, as src/**/*.py")
	}
	if dir == workspace {
		pattern = strings.TrimPrefix(strings.TrimPrefix(pattern, workspace+"/"), "workspace/")
	}
	return pattern, nil
}

func globTool(ctx context.Context, c *call) (any, error) {
	session, place, err := c.at(ctx, "path")
	if err != nil {
		return nil, err
	}
	pattern, err := globPattern(place, c.text("pattern"))
	if err != nil {
		return nil, err
	}
	found, err := session.Glob(ctx, pattern, &sandkasten.GlobOptions{Path: place, Limit: int(c.number("limit", listEntries))})
	if err != nil {
		return nil, err
	}
	a := listAnswer{Entries: []entry{}, Truncated: found.Truncated}
	for _, e := range found.Entries {
		if !a.add(newEntry(place, e), c.set.opts.MaxBytes) {
			a.Truncated = true
			break
		}
	}
	if a.Truncated {
		a.Hint = "there are more; send a narrower pattern or path"
	}
	return a, nil
}
