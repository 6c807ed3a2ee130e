package orchestrator

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"path"
	"strconv"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/orchestrator"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/protocol"
)

// write writes a file that is in a JSON body, as it is.
func (s *surface) write(ctx context.Context, in *uploadInput) (*ranOutput, error) {
	content := []byte(in.Body.Content)
	if in.Body.Encoding == "base64" {
		var err error
		if content, err = base64.StdEncoding.DecodeString(in.Body.Content); err != nil {
			return nil, listError{"Invalid base64 content"}
		}
	}
	return s.put(ctx, in.session, in.Body.Path, int64(len(content)), bytes.NewReader(content))
}

// put writes a file into a session. What a shell in the sandbox would have said is said as
// by one.
func (s *surface) put(ctx context.Context, x orchestrator.Session, name string, size int64, content io.Reader) (*ranOutput, error) {
	err := s.sessions.Change(ctx, api.Caller(ctx), x.ID, func(p auth.Principal, id session.ID) error {
		_, err := s.manager.Files.Write(ctx, p, string(id), protocol.Write{Path: name}, size, content)
		return err
	})
	if e, ok := errors.AsType[*errdefs.Error](err); ok && e.Reason != "" && e.Reason != errdefs.NoSuchSession {
		api.Failed(ctx, err)
		return &ranOutput{ran{ExitCode: 1, Stderr: e.Message + "\n"}}, nil
	}
	if err != nil {
		return nil, useError(err)
	}
	return &ranOutput{}, nil
}

// upload writes a file that is the body, or a part of a form in it.
func (s *surface) upload(_ context.Context, in *ofUpload) (*kit.Stream, error) {
	return kit.Streaming(func(w http.ResponseWriter, r *http.Request) {
		out, err := s.take(w, r, in)
		if err != nil {
			writeError(w, r, err)
			return
		}
		api.WriteJSON(w, r, http.StatusOK, out.Body)
	}), nil
}

func (s *surface) take(w http.ResponseWriter, r *http.Request, in *ofUpload) (out *ranOutput, err error) {
	err = takeBody(w, http.MaxBytesReader(w, r.Body, s.opts.UploadBytes), func(body io.Reader) error {
		kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		form := err == nil && kind == "multipart/form-data"
		if !form && len(r.Header["Content-Length"]) == 1 {
			out, err = s.put(r.Context(), in.session, in.Path, r.ContentLength, body)
			return err
		}
		if form {
			if body, err = filePart(body, params["boundary"]); err != nil {
				return err
			}
		}
		return s.spool(body, func(size int64, content io.Reader) (err error) {
			out, err = s.put(r.Context(), in.session, in.Path, size, content)
			return err
		})
	})
	return out, err
}

// takeBody hands a body to take, which each piece may let wait for a time.
func takeBody(w http.ResponseWriter, body io.ReadCloser, take func(io.Reader) error) error {
	patient := &patientBody{body, http.NewResponseController(w)}
	if err := take(patient); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return errdefs.Wrap(err, errdefs.InvalidArgument, "the body ended before its Content-Length")
		}
		return err
	}
	// The deadline of the body would otherwise end the request.
	return patient.control.SetReadDeadline(time.Time{})
}

// patientBody is a body with a new deadline for every read.
type patientBody struct {
	body    io.Reader
	control *http.ResponseController
}

func (p *patientBody) Read(b []byte) (int, error) {
	if err := p.control.SetReadDeadline(time.Now().Add(api.BodyTimeout)); err != nil {
		return 0, err
	}
	return p.body.Read(b)
}

// spool keeps a body in a file without a name until its size is known.
func (s *surface) spool(body io.Reader, take func(size int64, content io.Reader) error) (err error) {
	file, err := os.CreateTemp(s.opts.SpoolDir, "upload-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := os.Remove(file.Name()); err != nil {
		return err
	}
	size, err := io.Copy(file, body)
	if err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return take(size, file)
}

// content answers with a file.
func (s *surface) content(_ context.Context, in *ofDownload) (*kit.Stream, error) {
	return kit.Streaming(func(w http.ResponseWriter, r *http.Request) {
		err := s.sessions.Use(r.Context(), api.Caller(r.Context()), in.session.ID, func(p auth.Principal, id session.ID) error {
			info, content, err := s.manager.Files.Read(r.Context(), p, string(id), protocol.Read{Path: in.Path})
			if err != nil {
				return err
			}
			send(w, r, cmp.Or(in.Filename, path.Base(in.Path)), octets, info.Size, content)
			return nil
		})
		if err != nil {
			writeError(w, r, useError(err))
		}
	}), nil
}

// send answers with a file that browsers store and do not show.
func send(w http.ResponseWriter, r *http.Request, name, kind string, size int64, content io.ReadCloser) {
	header := w.Header()
	header.Set("Content-Type", kind)
	header.Set("Content-Length", strconv.FormatInt(size, 10))
	header.Set("Content-Disposition", api.Attachment(name))
	header.Set("Content-Security-Policy", "sandbox") // it has the origin of the API
	w.WriteHeader(http.StatusOK)
	var err error
	if r.Method != http.MethodHead {
		_, err = io.Copy(api.Patient(w), content)
	}
	if err = errors.Join(err, content.Close()); err != nil {
		// A broken connection is all that can still tell the client.
		api.Failed(r.Context(), err)
		panic(http.ErrAbortHandler)
	}
}
