package v1

import (
	"context"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
)

// Limits of an upload beside its size.
const (
	maxFiles = 1000
	maxPath  = 4096
)

// Uploaded is the answer to an upload.
type Uploaded struct {
	OK    bool     `json:"ok" example:"true"`
	Paths []string `json:"paths" nullable:"false" doc:"The files written, in the order of their parts." example:"[\"/workspace/a.txt\"]"`
}

func (s *surface) upload(ctx context.Context, in *SessionPath) (*huma.StreamResponse, error) {
	id, err := s.find(ctx, *in)
	if err != nil {
		return nil, err
	}
	// By itself, because huma would read the whole body into memory first.
	return streaming(func(w http.ResponseWriter, r *http.Request) {
		uploaded, err := s.receive(w, r, id)
		if err != nil {
			api.WriteError(w, r, err)
			return
		}
		api.WriteJSON(w, r, http.StatusOK, uploaded)
	}), nil
}

// receive takes an upload into a spool file, since a sandbox wants a file's
// size before its first byte, and then writes the files.
func (s *surface) receive(w http.ResponseWriter, r *http.Request, id session.ID) (*Uploaded, error) {
	control := http.NewResponseController(w)
	r.Body = &patientBody{ReadCloser: http.MaxBytesReader(w, r.Body, s.opts.UploadBytes), control: control}
	parts, err := r.MultipartReader()
	if err != nil {
		return nil, api.MediaType("multipart/form-data with a boundary")
	}
	spool, err := newSpool(s.opts.SpoolDir)
	if err != nil {
		return nil, err
	}
	var paths []string
	err = spool.take(parts)
	if err == nil {
		// The rest of the request may take as long as it needs. After an
		// error the deadline stays, for net/http reads what is left of a body
		// before it answers.
		err = control.SetReadDeadline(time.Time{})
	}
	if err == nil {
		paths, err = s.unspool(r.Context(), id, spool)
	}
	if err = errors.Join(err, spool.close()); err != nil {
		return nil, err
	}
	return &Uploaded{OK: true, Paths: paths}, nil
}

// patientBody gives a client BodyTimeout for every read.
type patientBody struct {
	io.ReadCloser
	control *http.ResponseController
}

func (b *patientBody) Read(p []byte) (int, error) {
	if err := b.control.SetReadDeadline(time.Now().Add(api.BodyTimeout)); err != nil {
		return 0, err
	}
	return b.ReadCloser.Read(p)
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
		value, err := io.ReadAll(io.LimitReader(part, maxPath+1))
		if err != nil {
			return errForm(err)
		}
		if len(value) > maxPath {
			return errdefs.Invalid("path", "must be at most %d bytes", maxPath)
		}
		path := string(value)
		sp.path = &path
		return nil
	}
	return errdefs.Invalid(clip(part.FormName()), "is not a field of an upload; those are file, files and path")
}

func (sp *spool) takeFile(part *multipart.Part) error {
	name := part.FileName() // without any directories
	if name == "" || name == "." || name == ".." || name == "/" || strings.ContainsRune(name, 0) {
		return errdefs.Invalid(part.FormName(), "must have a filename")
	}
	if len(sp.parts) == maxFiles {
		return errdefs.New(errdefs.TooLarge, "an upload may have at most %d files", maxFiles)
	}
	size, err := io.Copy(sp.file, part)
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

// errForm is an error in reading the form. What is not about limits or time
// is the client's mistake.
func errForm(err error) error {
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge || errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return errdefs.Wrap(err, errdefs.InvalidArgument, "the body is not complete, well-formed multipart/form-data")
}

// unspool writes the files into the session.
func (s *surface) unspool(ctx context.Context, id session.ID, sp *spool) ([]string, error) {
	target := "/workspace/"
	if sp.path != nil {
		target = *sp.path
	}
	if !strings.HasSuffix(target, "/") && (len(sp.parts) > 1 || s.isDirectory(ctx, id, target)) {
		target += "/"
	}
	paths := make([]string, 0, len(sp.parts))
	for _, part := range sp.parts {
		path := target
		if strings.HasSuffix(target, "/") {
			path += part.name
		}
		content := io.NewSectionReader(sp.file, part.start, part.size)
		if err := s.manager.WriteFile(ctx, id, path, 0, part.size, content); err != nil {
			return nil, err
		}
		if !strings.HasPrefix(path, "/") {
			path = "/workspace/" + path
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// isDirectory reports whether path can be listed. If not for another reason
// than that it is no directory, writing there gives the reason.
func (s *surface) isDirectory(ctx context.Context, id session.ID, path string) bool {
	_, _, err := s.manager.ListFiles(ctx, id, path)
	return err == nil
}
