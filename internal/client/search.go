package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// GlobRequest asks for files by name.
type GlobRequest struct {
	Path    string
	Pattern string
	Hidden  bool
	Limit   int // 0 is the daemon's default
}

// Found is the files that a glob found.
type Found struct {
	Entries   []Entry `json:"entries"`
	Truncated bool    `json:"truncated"`
}

// Glob finds files by name.
func (c *Client) Glob(ctx context.Context, id string, r GlobRequest) (Found, error) {
	query := url.Values{"path": {r.Path}, "pattern": {r.Pattern}}
	setFlag(query, "hidden", r.Hidden)
	setNumber(query, "limit", r.Limit)
	var found Found
	err := c.call(ctx, http.MethodGet, c.filesPath(id, "glob", query), nil, &found)
	return found, err
}

// GrepRequest asks for lines by their text.
type GrepRequest struct {
	Path       string
	Pattern    string // RE2's syntax
	Literal    bool   // Pattern is text
	IgnoreCase bool
	Include    string
	Hidden     bool
	Before     int // lines of context
	After      int
	Limit      int // 0 is the daemon's default
}

// Match is one line that matches.
type Match struct {
	Path   string   `json:"path"`
	Line   int      `json:"line"`
	Column int      `json:"column"`
	Text   string   `json:"text"`
	Before []string `json:"before,omitempty"`
	After  []string `json:"after,omitempty"`
}

// Matches is what a grep found.
type Matches struct {
	Matches   []Match `json:"matches"`
	Files     int     `json:"files"`
	Truncated bool    `json:"truncated"`
}

// Grep finds lines by their text.
func (c *Client) Grep(ctx context.Context, id string, r GrepRequest) (Matches, error) {
	query := url.Values{"path": {r.Path}, "pattern": {r.Pattern}}
	setFlag(query, "literal", r.Literal)
	setFlag(query, "ignore_case", r.IgnoreCase)
	setFlag(query, "hidden", r.Hidden)
	if r.Include != "" {
		query.Set("include", r.Include)
	}
	setNumber(query, "before", r.Before)
	setNumber(query, "after", r.After)
	setNumber(query, "limit", r.Limit)
	var found Matches
	err := c.call(ctx, http.MethodGet, c.filesPath(id, "grep", query), nil, &found)
	return found, err
}

// Change is one change in a directory that is watched.
type Change struct {
	Op   string `json:"op"` // ready, create, write, remove, rename, chmod, overflow
	Path string `json:"path,omitempty"`
	From string `json:"from,omitempty"`
	Type string `json:"type,omitempty"`
}

// Watch tells what changes in a directory, first that it is ready, until ctx is
// done, tell fails or the session ends, each of which is an error.
func (c *Client) Watch(ctx context.Context, id, path string, recursive bool, tell func(Change) error) error {
	query := url.Values{"path": {path}}
	setFlag(query, "recursive", recursive)
	resp, err := c.get(ctx, c.filesPath(id, "watch", query))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for e, err := range events(resp.Body) {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		if err != nil {
			return err
		}
		if e.name == "error" {
			return streamError(e.data)
		}
		change := Change{Op: e.name}
		if err := json.Unmarshal(e.data, &change); err != nil {
			return fmt.Errorf("decode a change: %w", err)
		}
		if err := tell(change); err != nil {
			return err
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return errors.New("the daemon ended the stream of changes")
}

func setNumber(query url.Values, name string, n int) {
	if n != 0 {
		query.Set(name, strconv.Itoa(n))
	}
}
