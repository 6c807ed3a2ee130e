package files

import (
	"context"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/v1/contract"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/ops"
	"github.com/sandkasten/sandkasten/protocol"
)

// Input is a request with a JSON body.
type Input[T any] struct {
	SessionFiles
	Body T
}

// MkdirRequest is a directory to be made.
type MkdirRequest struct {
	Path    string `json:"path" minLength:"1" maxLength:"4096" doc:"Absolute, or from /workspace." example:"/workspace/data"`
	Mode    Mode   `json:"mode,omitempty" pattern:"^[0-7]{3,4}$" patternDescription:"an octal mode like 0755" doc:"Without it 0755." example:"0755"`
	Parents bool   `json:"parents,omitempty" doc:"Make those above it, too, and do not mind if it is there."`
}

// MoveRequest is a file or directory to be renamed.
type MoveRequest struct {
	From      string `json:"from" minLength:"1" maxLength:"4096" example:"/workspace/a.txt"`
	To        string `json:"to" minLength:"1" maxLength:"4096" doc:"The new path itself, not a directory to move into." example:"/workspace/b.txt"`
	Overwrite bool   `json:"overwrite,omitempty" doc:"Replace what is there: a file, a link or an empty directory."`
}

// CopyRequest is a file or directory to be copied.
type CopyRequest struct {
	From      string `json:"from" minLength:"1" maxLength:"4096" example:"/workspace/a.txt"`
	To        string `json:"to" minLength:"1" maxLength:"4096" doc:"The new path itself, not a directory to copy into." example:"/workspace/b.txt"`
	Recursive bool   `json:"recursive,omitempty" doc:"Needed for a directory."`
	Overwrite bool   `json:"overwrite,omitempty" doc:"Replace files that are there."`
}

// DeleteRequest is a file or directory to be removed.
type DeleteRequest struct {
	Path      string `json:"path" minLength:"1" maxLength:"4096" doc:"Absolute, or from /workspace. A link is removed itself." example:"/workspace/data"`
	Recursive bool   `json:"recursive,omitempty" doc:"Needed for a directory that is not empty."`
}

// ChmodRequest is a mode to be set.
type ChmodRequest struct {
	Path      string `json:"path" minLength:"1" maxLength:"4096" doc:"Absolute, or from /workspace. Links are followed." example:"/workspace/run.sh"`
	Mode      Mode   `json:"mode" pattern:"^[0-7]{3,4}$" patternDescription:"an octal mode like 0755" example:"0755"`
	Recursive bool   `json:"recursive,omitempty" doc:"Also what is below it; links there are left alone."`
}

// EditRequest is text to be replaced in a file.
type EditRequest struct {
	Path  string `json:"path" minLength:"1" maxLength:"4096" doc:"Absolute, or from /workspace." example:"/workspace/main.go"`
	Old   string `json:"old" minLength:"1" doc:"The text as it is in the file, exactly; at most 1 MiB." example:"hello"`
	New   string `json:"new" doc:"What takes its place; at most 1 MiB." example:"goodbye"`
	Count int    `json:"count,omitempty" minimum:"1" maximum:"1000000000" doc:"How often the text must be there. With any other number, 422 and nothing changes. Without it: once or more." example:"1"`
}

// EditResponse is what an edit did.
type EditResponse struct {
	Replaced      int    `json:"replaced" example:"1"`
	Diff          string `json:"diff" doc:"The change, as a unified diff." example:"@@ -1 +1 @@\n-hello\n+goodbye\n"`
	DiffTruncated bool   `json:"diff_truncated" doc:"The change is larger than the diff, which has at most 256 KiB."`
}

// EditOutput is EditResponse as the kit wants it.
type EditOutput struct{ Body EditResponse }

// Mkdir makes a directory.
func (h *Handlers) Mkdir(ctx context.Context, in *Input[MkdirRequest]) (*contract.OKOutput, error) {
	mode, err := in.Body.Mode.forNew()
	if err != nil {
		return nil, err
	}
	return change(ctx, h, in, func(id session.ID, r MkdirRequest) error {
		return h.Manager.Files.Mkdir(ctx, api.Caller(ctx), string(id), protocol.Mkdir{Path: r.Path, Mode: mode, Parents: r.Parents, User: in.User})
	})
}

// Move renames a file or directory.
func (h *Handlers) Move(ctx context.Context, in *Input[MoveRequest]) (*contract.OKOutput, error) {
	return change(ctx, h, in, func(id session.ID, r MoveRequest) error {
		return h.Manager.Files.Move(ctx, api.Caller(ctx), string(id), protocol.Move{From: r.From, To: r.To, Overwrite: r.Overwrite, User: in.User})
	})
}

// Copy copies a file or directory.
func (h *Handlers) Copy(ctx context.Context, in *Input[CopyRequest]) (*contract.OKOutput, error) {
	return change(ctx, h, in, func(id session.ID, r CopyRequest) error {
		return h.Manager.Files.Copy(ctx, api.Caller(ctx), string(id), protocol.Copy{From: r.From, To: r.To, Recursive: r.Recursive, Overwrite: r.Overwrite, User: in.User})
	})
}

// Delete removes a file or directory.
func (h *Handlers) Delete(ctx context.Context, in *Input[DeleteRequest]) (*contract.OKOutput, error) {
	return change(ctx, h, in, func(id session.ID, r DeleteRequest) error {
		return h.Manager.Files.Remove(ctx, api.Caller(ctx), string(id), protocol.Remove{Path: r.Path, Recursive: r.Recursive, User: in.User})
	})
}

// Chmod sets the mode of a file, or of all in a directory.
func (h *Handlers) Chmod(ctx context.Context, in *Input[ChmodRequest]) (*contract.OKOutput, error) {
	mode, err := in.Body.Mode.bits()
	if err != nil {
		return nil, err
	}
	return change(ctx, h, in, func(id session.ID, r ChmodRequest) error {
		return h.Manager.Files.Chmod(ctx, api.Caller(ctx), string(id), protocol.Chmod{Path: r.Path, Mode: mode, Recursive: r.Recursive, User: in.User})
	})
}

// change does to a session what a request asks for.
func change[T any](ctx context.Context, h *Handlers, in *Input[T], do func(session.ID, T) error) (*contract.OKOutput, error) {
	id, err := h.Find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	if err := do(id, in.Body); err != nil {
		return nil, err
	}
	return contract.Done(), nil
}

// Edit replaces text in a file.
func (h *Handlers) Edit(ctx context.Context, in *Input[EditRequest]) (*EditOutput, error) {
	id, err := h.Find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	if in.Body.Old == in.Body.New {
		return nil, errdefs.Invalid("new", "must differ from old")
	}
	done, err := h.Manager.Files.Edit(ctx, api.Caller(ctx), string(id), ops.EditRequest{
		Path: in.Body.Path, Old: in.Body.Old, New: in.Body.New, Count: in.Body.Count, User: in.User,
	})
	if err != nil {
		return nil, err
	}
	return &EditOutput{EditResponse(done)}, nil
}
