package files

import (
	"context"
	"errors"
	"net/http"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
	"github.com/sandkasten/sandkasten/protocol"
)

// GlobInput is a request for files by name.
type GlobInput struct {
	SessionFiles
	Path    string `query:"path" default:"/workspace" maxLength:"4096" doc:"Where to look, absolute or from /workspace."`
	Pattern string `query:"pattern" required:"true" minLength:"1" maxLength:"4096" doc:"* and ? and [a-z] stay within one name, ** is any number of directories, {a,b} is either. Without a slash it is matched against names at every depth." example:"src/**/*.go"`
	Hidden  bool   `query:"hidden" doc:"Also names that begin with a dot where the pattern does not say so."`
	Limit   int    `query:"limit" default:"1000" minimum:"1" maximum:"10000" doc:"Entries in the answer."`
}

// Found is the files that a glob found.
type Found struct {
	Entries   []Entry `json:"entries" nullable:"false"`
	Truncated bool    `json:"truncated" doc:"There are more: give a narrower pattern or path."`
}

// GlobOutput is Found as the kit wants it.
type GlobOutput struct{ Body Found }

// Glob finds files by name.
func (h *Handlers) Glob(ctx context.Context, in *GlobInput) (*GlobOutput, error) {
	id, err := h.Find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	found, err := h.Manager.Files.Glob(ctx, api.Caller(ctx), string(id), protocol.Glob{Path: in.Path, Pattern: in.Pattern, Hidden: in.Hidden, Max: in.Limit, User: in.User})
	if err != nil {
		return nil, err
	}
	return &GlobOutput{Found{Entries: entriesOf(found.Entries), Truncated: found.Truncated}}, nil
}

// GrepInput is a request for lines by their text.
type GrepInput struct {
	SessionFiles
	Path       string `query:"path" default:"/workspace" maxLength:"4096" doc:"A directory or file, absolute or from /workspace."`
	Pattern    string `query:"pattern" required:"true" minLength:"1" maxLength:"4096" doc:"A regular expression in RE2's syntax." example:"func \\w+Handler"`
	Literal    bool   `query:"literal" doc:"The pattern is text."`
	IgnoreCase bool   `query:"ignore_case"`
	Include    string `query:"include" maxLength:"4096" doc:"Only files that match this pattern; see glob." example:"*.go"`
	Hidden     bool   `query:"hidden" doc:"Also names that begin with a dot."`
	Before     int    `query:"before" minimum:"0" maximum:"50" doc:"Lines of context before each match."`
	After      int    `query:"after" minimum:"0" maximum:"50" doc:"And behind it."`
	Limit      int    `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"Matches in the answer."`
}

// Match is one line that matches.
type Match struct {
	Path   string   `json:"path" doc:"Relative to the directory; empty if a file was searched." example:"a.go"`
	Line   int      `json:"line" doc:"From 1." example:"3"`
	Column int      `json:"column" doc:"Of the first match in the line, in bytes, from 1." example:"6"`
	Text   string   `json:"text" doc:"The line, cut if it is long." example:"func main() {"`
	Before []string `json:"before,omitempty"`
	After  []string `json:"after,omitempty"`
}

// Matches is what a grep found.
type Matches struct {
	Matches   []Match `json:"matches" nullable:"false" doc:"By path and line."`
	Files     int     `json:"files" doc:"That were read." example:"12"`
	Binary    int     `json:"binary_files" doc:"Of these, passed over since they are no text: nothing is said of what they hold."`
	Truncated bool    `json:"truncated" doc:"There are more: give a narrower pattern, include or path."`
}

// GrepOutput is Matches as the kit wants it.
type GrepOutput struct{ Body Matches }

// Grep finds lines by their text.
func (h *Handlers) Grep(ctx context.Context, in *GrepInput) (*GrepOutput, error) {
	id, err := h.Find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	found, err := h.Manager.Files.Grep(ctx, api.Caller(ctx), string(id), protocol.Grep{
		Path: in.Path, Pattern: in.Pattern, Literal: in.Literal, IgnoreCase: in.IgnoreCase, Include: in.Include,
		Hidden: in.Hidden, Before: in.Before, After: in.After, Max: in.Limit, User: in.User,
	})
	if err != nil {
		return nil, err
	}
	out := Matches{Matches: make([]Match, 0, len(found.Matches)), Files: found.Files, Binary: found.Binary, Truncated: found.Truncated}
	for _, m := range found.Matches {
		out.Matches = append(out.Matches, Match(m))
	}
	return &GrepOutput{out}, nil
}

// WatchInput is a request to be told what changes.
type WatchInput struct {
	SessionFiles
	Path      string `query:"path" default:"/workspace" maxLength:"4096" doc:"A directory, absolute or from /workspace."`
	Recursive bool   `query:"recursive" doc:"Also in the directories below it."`
}

// Change is the data of a watch's events but ready, overflow and error.
type Change struct {
	Path string `json:"path"`
	From string `json:"from,omitempty"`
	Type string `json:"type,omitempty"`
}

// Watch tells what changes in a directory until the client goes away or the
// session ends.
func (h *Handlers) Watch(ctx context.Context, in *WatchInput) (*kit.Stream, error) {
	id, err := h.Find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	return kit.Streaming(func(w http.ResponseWriter, r *http.Request) {
		var events *api.Events
		err := h.Manager.Files.Watch(r.Context(), api.Caller(ctx), string(id), protocol.Watch{Path: in.Path, Recursive: in.Recursive, User: in.User}, func(c protocol.Change) error {
			if events == nil {
				events = api.StartEvents(w)
			}
			if c.Path == "" { // ready, overflow
				return events.Send(c.Op, "", struct{}{})
			}
			return events.Send(c.Op, "", Change{Path: c.Path, From: c.From, Type: c.Type})
		})
		if events == nil { // it was refused
			api.WriteError(w, r, err)
			return
		}
		defer events.Close()
		body, _ := api.ErrorForm(r.Context(), err)
		if err := events.Send("error", "", body); err != nil {
			api.Failed(r.Context(), errors.Join(err, r.Context().Err()))
		}
	}), nil
}
