package files

import (
	"context"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
	"github.com/sandkasten/sandkasten/internal/api/strictjson"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/protocol"
)

// maxFiles is the limit of an upload beside its size.
const maxFiles = 1000

// Uploaded is the answer to an upload.
type Uploaded struct {
	OK    bool     `json:"ok" example:"true"`
	Paths []string `json:"paths" nullable:"false" doc:"The files written, in the order of their parts." example:"[\"/workspace/a.txt\"]"`
}

// Upload writes the files of a form.
func (h *Handlers) Upload(ctx context.Context, in *SessionFiles) (*kit.Stream, error) {
	id, err := h.Find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	// By itself, because the kit would read the whole body into memory first.
	return kit.Streaming(func(w http.ResponseWriter, r *http.Request) {
		uploaded, err := h.receive(w, r, id, in.User)
		answer(w, r, uploaded, err)
	}), nil
}

// receive takes an upload into a spool file, since a sandbox wants a file's
// size before its first byte, and then writes the files.
func (h *Handlers) receive(w http.ResponseWriter, r *http.Request, id session.ID, user string) (*Uploaded, error) {
	body := newPatientBody(w, http.MaxBytesReader(w, r.Body, h.UploadBytes))
	r.Body = body
	parts, err := r.MultipartReader()
	if err != nil {
		return nil, api.MediaType("multipart/form-data with a boundary")
	}
	spool, err := newSpool(h.SpoolDir)
	if err != nil {
		return nil, err
	}
	var paths []string
	err = spool.take(parts)
	if err == nil {
		err = body.finish()
	}
	if err == nil {
		paths, err = h.unspool(r.Context(), id, user, spool)
	}
	if err = errors.Join(err, spool.close()); err != nil {
		return nil, err
	}
	return &Uploaded{OK: true, Paths: paths}, nil
}

// spool holds the files of one upload, one behind the other in a file that has
// no name, so that nothing of it outlives the daemon.
type spool struct {
	file  *os.File
	size  int64
	parts []spooled
	path  *string // the field, if it was sent
}

type spooled struct {
	name        string
	start, size int64
}

func newSpool(dir string) (*spool, error) {
	file, err := os.CreateTemp(dir, "upload-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &spool{file: file}, nil
}

func (sp *spool) close() error { return sp.file.Close() }

// take reads the whole form.
func (sp *spool) take(parts *multipart.Reader) error {
	for {
		part, err := parts.NextRawPart()
		switch {
		case err == io.EOF: // a wrapped one is a body that was cut
			if len(sp.parts) == 0 {
				return errdefs.Invalid("file", "is required: send at least one part with this name and a filename")
			}
			return nil
		case err != nil:
			return errForm(err)
		}
		if err := sp.takePart(part); err != nil {
			return err
		}
	}
}

func (sp *spool) takePart(part *multipart.Part) error {
	switch part.FormName() {
	case "file", "files":
		return sp.takeFile(part)
	case "path":
		if sp.path != nil {
			return errdefs.Invalid("path", "appears twice")
		}
		value, err := io.ReadAll(io.LimitReader(part, protocol.MaxPath+1))
		if err != nil {
			return errForm(err)
		}
		if len(value) > protocol.MaxPath {
			return errdefs.Invalid("path", "must be at most %d bytes", protocol.MaxPath)
		}
		asked := string(value)
		sp.path = &asked
		return nil
	}
	return errdefs.Invalid(strictjson.FieldName(part.FormName()), "is not a field of an upload; those are file, files and path")
}

func (sp *spool) takeFile(part *multipart.Part) error {
	name := protocol.EscapeName(formName.Replace(part.FileName())) // without any directories
	if name == "" || name == "." || name == ".." || name == "/" || strings.ContainsRune(name, 0) {
		return errdefs.Invalid(part.FormName(), "must have a filename")
	}
	if len(sp.parts) == maxFiles {
		return errdefs.New(errdefs.TooLarge, "an upload may have at most %d files", maxFiles)
	}
	size, err := transfer(sp.file, part)
	if errors.Is(err, syscall.ENOSPC) {
		return errdefs.Wrap(err, errdefs.InsufficientSpace, "the daemon has no room for this upload; try again later")
	}
	if err != nil {
		return errForm(err)
	}
	sp.parts = append(sp.parts, spooled{name: name, start: sp.size, size: size})
	sp.size += size
	return nil
}

// formName undoes what browsers and others do to a name in a form, as the standard of
// HTML has it. A percent sign stays as it is there, and so it does here.
var formName = strings.NewReplacer("%22", `"`, "%0D", "\r", "%0A", "\n")

// errForm is an error in reading the form. What is not about limits or time
// is the client's mistake.
func errForm(err error) error {
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge || errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return errdefs.Wrap(err, errdefs.InvalidArgument, "the body is not complete, well-formed multipart/form-data")
}

// unspool writes the files into the session.
func (h *Handlers) unspool(ctx context.Context, id session.ID, user string, sp *spool) ([]string, error) {
	target := "/workspace/"
	if sp.path != nil {
		target = *sp.path
	}
	if !strings.HasSuffix(target, "/") && (len(sp.parts) > 1 || h.isDirectory(ctx, id, protocol.Stat{Path: target, Follow: true, User: user}, sp.parts[0].name)) {
		target += "/"
	}
	paths := make([]string, 0, len(sp.parts))
	for _, part := range sp.parts {
		at := target
		if strings.HasSuffix(target, "/") {
			at += part.name
		}
		content := io.NewSectionReader(sp.file, part.start, part.size)
		if _, err := h.Manager.Files.Write(ctx, api.Caller(ctx), string(id), protocol.Write{Path: at, User: user}, part.size, content); err != nil {
			return nil, err
		}
		if !strings.HasPrefix(at, "/") {
			at = "/workspace/" + at
		}
		paths = append(paths, at)
	}
	return paths, nil
}

// isDirectory reports whether what at asks for is a directory, or is to be one for a file of
// this name: nothing is there, and only the file's name looks like one of a file.
// If it cannot be told, writing there gives the reason.
func (h *Handlers) isDirectory(ctx context.Context, id session.ID, at protocol.Stat, name string) bool {
	info, err := h.Manager.Files.Stat(ctx, api.Caller(ctx), string(id), at)
	if errdefs.Is(err, errdefs.NotFound) {
		return path.Ext(at.Path) == "" && path.Ext(name) != ""
	}
	return err == nil && info.Type == "dir"
}
