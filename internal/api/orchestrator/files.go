package orchestrator

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"path"
	"strconv"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/orchestrator"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/protocol"
)

// write writes a file that is in a JSON body, as it is.
func (s *surface) write(w http.ResponseWriter, r *http.Request) error {
	x, err := s.find(r)
	if err != nil {
		return err
	}
	f, err := s.readFields(w, r)
	if err != nil {
		return err
	}
	name, content := f.filled("path"), []byte(f.text("content", true))
	encoding := f.choice("encoding", "utf-8", "base64")
	if err := f.errors.orNil(); err != nil {
		return err
	}
	if encoding == "base64" {
		if content, err = base64.StdEncoding.DecodeString(string(content)); err != nil {
			api.Failed(r.Context(), err)
			api.WriteJSON(w, r, http.StatusBadRequest, []string{"Invalid base64 content"})
			return nil
		}
	}
	return s.put(w, r, x, name, int64(len(content)), bytes.NewReader(content))
}

// put writes a file into a session and answers.
func (s *surface) put(w http.ResponseWriter, r *http.Request, x orchestrator.Session, name string, size int64, content io.Reader) error {
	err := s.sessions.Change(r.Context(), api.Caller(r.Context()), x.ID, func(p auth.Principal, id session.ID) error {
		_, err := s.manager.Files.Write(r.Context(), p, string(id), protocol.Write{Path: name}, size, content)
		return err
	})
	return s.wrote(w, r, err)
}

// wrote answers an upload. What a shell in the sandbox would have said is said as by
// one.
func (s *surface) wrote(w http.ResponseWriter, r *http.Request, err error) error {
	if e, ok := errors.AsType[*errdefs.Error](err); ok && e.Reason != "" && e.Reason != errdefs.NoSuchSession {
		api.Failed(r.Context(), err)
		api.WriteJSON(w, r, http.StatusOK, ran{ExitCode: 1, Stderr: e.Message + "\n"})
		return nil
	}
	if err != nil {
		return useError(err)
	}
	api.WriteJSON(w, r, http.StatusOK, ran{})
	return nil
}

// upload writes a file that is the body, or a part of a form in it.
func (s *surface) upload(w http.ResponseWriter, r *http.Request) error {
	x, err := s.find(r)
	if err != nil {
		return err
	}
	name := r.URL.Query().Get("path")
	if name == "" {
		return &statusError{status: http.StatusBadRequest, text: "path is required"}
	}
	return takeBody(w, http.MaxBytesReader(w, r.Body, s.opts.UploadBytes), func(body io.Reader) error {
		kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		form := err == nil && kind == "multipart/form-data"
		if !form && len(r.Header["Content-Length"]) == 1 {
			return s.put(w, r, x, name, r.ContentLength, body)
		}
		if form {
			if body, err = filePart(body, params["boundary"]); err != nil {
				return err
			}
		}
		return s.spool(body, func(size int64, content io.Reader) error { return s.put(w, r, x, name, size, content) })
	})
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
func (s *surface) content(w http.ResponseWriter, r *http.Request) error {
	x, err := s.find(r)
	if err != nil {
		return err
	}
	query := r.URL.Query()
	name := query.Get("path")
	if name == "" {
		return &statusError{status: http.StatusBadRequest, text: "path is required"}
	}
	shown := query.Get("filename")
	if shown == "" {
		shown = path.Base(name)
	}
	err = s.sessions.Use(r.Context(), api.Caller(r.Context()), x.ID, func(p auth.Principal, id session.ID) error {
		info, content, err := s.manager.Files.Read(r.Context(), p, string(id), protocol.Read{Path: name})
		if err != nil {
			return err
		}
		send(w, r, shown, "application/octet-stream", info.Size, content)
		return nil
	})
	return useError(err)
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
