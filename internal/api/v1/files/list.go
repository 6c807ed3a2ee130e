package files

import (
	"context"
	"encoding/base64"
	"path"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/protocol"
)

// ListInput is a request for a directory.
type ListInput struct {
	SessionFiles
	Path   string `query:"path" default:"/workspace" maxLength:"4096" doc:"A directory, absolute or from /workspace."`
	Depth  int    `query:"depth" default:"1" minimum:"-1" maximum:"4096" doc:"How many levels of directories: 1 is this one, -1 is all. The entries of a directory follow it. Links are not followed."`
	Limit  int    `query:"limit" default:"1000" minimum:"1" maximum:"10000" doc:"Entries in the answer."`
	Cursor string `query:"cursor" maxLength:"16384" doc:"next_cursor of the answer before."`
}

// List is a directory, or a page of it.
type List struct {
	Path       string  `json:"path" example:"/workspace"`
	Entries    []Entry `json:"entries" nullable:"false"`
	Truncated  bool    `json:"truncated" doc:"There are more entries; next_cursor leads to them."`
	NextCursor string  `json:"next_cursor,omitempty" doc:"Send it as cursor, with the same path and depth."`
}

// ListOutput is List as the kit wants it.
type ListOutput struct{ Body List }

// List lists a directory.
func (h *Handlers) List(ctx context.Context, in *ListInput) (*ListOutput, error) {
	id, err := h.Find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	after, err := decodeCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	if in.Depth == 0 {
		return nil, errdefs.Invalid("depth", "must be at least 1, or -1 for all")
	}
	found, err := h.Manager.Files.List(ctx, api.Caller(ctx), string(id), protocol.List{Path: in.Path, Depth: in.Depth, Max: in.Limit, After: after, User: in.User})
	if err != nil {
		return nil, err
	}
	list := List{Path: in.Path, Entries: entriesOf(found.Entries), Truncated: found.Truncated}
	if found.Truncated {
		list.NextCursor = encodeCursor(found.Next)
	}
	return &ListOutput{list}, nil
}

// A cursor is where a listing goes on, in an alphabet that needs no escaping in
// a URL.
func encodeCursor(next []byte) string { return base64.RawURLEncoding.EncodeToString(next) }

func decodeCursor(cursor string) (after []byte, err error) {
	after, err = base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil {
		return nil, errdefs.Invalid("cursor", "must be next_cursor of an answer to this listing")
	}
	return after, nil
}

// StatInput is a request for what is known of a file.
type StatInput struct {
	SessionFiles
	Path   string `query:"path" required:"true" maxLength:"4096" doc:"Absolute, or from /workspace." example:"/workspace/a.txt"`
	Follow bool   `query:"follow" doc:"Follow a link instead of describing it."`
}

// Stat is one file.
type Stat struct {
	Path string `json:"path" example:"/workspace/a.txt"`
	ETag string `json:"etag,omitempty" doc:"Of a regular file: the ETag that fs/read gives, for If-Match of fs/raw." example:"\"18a5f0b3c2d1e000-3-2a-18a5f0b3c2d1e000\""`
	Entry
}

// StatOutput is Stat as the kit wants it.
type StatOutput struct{ Body Stat }

// Stat describes a file.
func (h *Handlers) Stat(ctx context.Context, in *StatInput) (*StatOutput, error) {
	id, err := h.Find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	info, err := h.Manager.Files.Stat(ctx, api.Caller(ctx), string(id), protocol.Stat{Path: in.Path, Follow: in.Follow, Tag: true, User: in.User})
	if err != nil {
		return nil, err
	}
	name := info.Name
	info.Name = path.Base(name)
	return &StatOutput{Stat{Path: name, ETag: info.Tag, Entry: entryOf(info)}}, nil
}
