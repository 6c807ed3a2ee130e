package files

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
	"github.com/sandkasten/sandkasten/internal/api/v1/contract"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/protocol"
)

// WriteInput is a request to write a file.
type WriteInput struct {
	SessionFiles
	Body WriteRequest
}

// WriteRequest is a file to be written. Exactly one of Text and ContentBase64
// is given.
type WriteRequest struct {
	Path          string  `json:"path" minLength:"1" maxLength:"4096" doc:"Absolute, or from /workspace." example:"/workspace/a.txt"`
	Text          *string `json:"text,omitempty" doc:"The file as UTF-8." example:"hi\n"`
	ContentBase64 *string `json:"content_base64,omitempty" doc:"The file in standard base64."`
	Mode          Mode    `json:"mode,omitempty" pattern:"^[0-7]{3,4}$" patternDescription:"an octal mode like 0644" doc:"Without it 0644, or the mode that the file has." example:"0644"`
	Create        bool    `json:"create,omitempty" doc:"Refuse to replace a file: 409, already_exists."`
	Append        bool    `json:"append,omitempty" doc:"Add to the end of the file. This is not atomic."`
}

// Write writes a file that is in the request.
func (h *Handlers) Write(ctx context.Context, in *WriteInput) (*contract.OKOutput, error) {
	id, err := h.Find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	content, size, err := in.Body.content(h.WriteBytes)
	if err != nil {
		return nil, err
	}
	mode, err := in.Body.Mode.forNew()
	if err != nil {
		return nil, err
	}
	w := protocol.Write{Path: in.Body.Path, Mode: mode, Create: in.Body.Create, Append: in.Body.Append, User: in.User}
	if _, err := h.Manager.Files.Write(ctx, api.Caller(ctx), string(id), w, size, content); err != nil {
		return nil, err
	}
	return contract.Done(), nil
}

// content is what to write, at most most bytes, and how much it is.
func (r *WriteRequest) content(most int64) (content io.Reader, size int64, err error) {
	switch {
	case (r.Text == nil) == (r.ContentBase64 == nil):
		return nil, 0, errdefs.Invalid("text", "or content_base64 is needed, and not both")
	case r.Text != nil:
		size = int64(len(*r.Text))
		if size > most {
			return nil, 0, errWriteTooLarge("text", most)
		}
		return strings.NewReader(*r.Text), size, nil
	}
	data, err := base64.StdEncoding.Strict().DecodeString(*r.ContentBase64)
	if err != nil {
		return nil, 0, errdefs.Invalid("content_base64", "must be standard base64 with padding")
	}
	size = int64(len(data))
	if size > most {
		return nil, 0, errWriteTooLarge("content_base64", most)
	}
	return bytes.NewReader(data), size, nil
}

func errWriteTooLarge(field string, most int64) error {
	err := errdefs.New(errdefs.TooLarge, "%s must be at most %d bytes; use PUT fs/raw for more", field, most)
	err.Field = field
	return err
}

// WriteRawInput is a request whose body is the file.
type WriteRawInput struct {
	SessionFiles
	Path   string `query:"path" required:"true" maxLength:"4096" doc:"Absolute, or from /workspace." example:"/workspace/a.bin"`
	Mode   Mode   `query:"mode" pattern:"^[0-7]{3,4}$" patternDescription:"an octal mode like 0644" doc:"Without it 0644, or the mode that the file has." example:"0644"`
	Create bool   `query:"create" doc:"Refuse to replace a file: 409, already_exists."`
	Append bool   `query:"append" doc:"Add to the end of the file. This is not atomic."`

	ModifiedAt string `query:"modified_at" maxLength:"40" doc:"The time that the file gets, as in RFC 3339, to microseconds; now without it. It does not go with append." example:"2026-11-21T09:00:00.5Z"`

	IfMatch     string `header:"If-Match" maxLength:"1024" doc:"ETags of fs/read, fs/stat or an earlier fs/raw: the file is only replaced if it is one of them, else 412. * is any file that is there."`
	IfNoneMatch string `header:"If-None-Match" enum:"*" doc:"The file is only made, and 412 if something is there."`
}

// Written is what was done with the file.
type Written struct {
	OK   bool   `json:"ok"`
	ETag string `json:"etag,omitempty" doc:"Of the file as it was written, if the request had If-Match or If-None-Match. It is the ETag header, too." example:"\"18a5f0b3c2d1e000-3-2a-18a5f0b3c2d1e000\""`
}

// write is the request as the runner gets it.
func (in *WriteRawInput) write() (protocol.Write, error) {
	mode, err := in.Mode.forNew()
	if err != nil {
		return protocol.Write{}, err
	}
	w := protocol.Write{Path: in.Path, Mode: mode, Create: in.Create || in.IfNoneMatch != "", Append: in.Append, User: in.User}
	w.Tag = in.IfMatch != "" || in.IfNoneMatch != ""
	if in.ModifiedAt != "" {
		at, err := time.Parse(time.RFC3339Nano, in.ModifiedAt)
		if err != nil || at.Year() < 1900 || at.Year() > 2200 { // beyond, nanoseconds do not fit into a number
			return w, errdefs.Invalid("modified_at", "must be a time such as 2026-11-21T09:00:00.5Z; in an address + is %%2B")
		}
		if in.Append {
			return w, errdefs.Invalid("modified_at", "does not go with append")
		}
		ns := at.UnixNano()
		w.ModTimeNS = &ns
	}
	if in.IfMatch == "" {
		return w, nil
	}
	if w.Create || w.Append {
		return w, errdefs.Invalid("If-Match", "goes neither with create and If-None-Match nor with append")
	}
	for tag := range strings.SplitSeq(in.IfMatch, ",") { // no tag of ours has a comma
		w.IfMatch = append(w.IfMatch, strings.TrimSpace(tag))
	}
	return w, nil
}

// WriteRaw writes the request's body to a file while it arrives.
func (h *Handlers) WriteRaw(ctx context.Context, in *WriteRawInput) (*kit.Stream, error) {
	id, err := h.Find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	write, err := in.write()
	if err != nil {
		return nil, err
	}
	return kit.Streaming(func(w http.ResponseWriter, r *http.Request) {
		done := Written{OK: true}
		err := TakeBody(w, r, func(size int64, body io.Reader) error {
			info, err := h.Manager.Files.Write(r.Context(), api.Caller(ctx), string(id), write, size, body)
			done.ETag = info.Tag
			return err
		})
		if in.IfNoneMatch != "" && errdefs.Is(err, errdefs.AlreadyExists) {
			err = errdefs.Wrap(err, errdefs.PreconditionFailed, "%q exists, and If-None-Match says that it must not", in.Path).Because(errdefs.FileExists)
		}
		if done.ETag != "" {
			w.Header().Set("ETag", done.ETag)
		}
		answer(w, r, done, err)
	}), nil
}

// TakeBody hands a body that comes with its length to take. net/http sees to it
// that it is no longer than that.
func TakeBody(w http.ResponseWriter, r *http.Request, take func(size int64, body io.Reader) error) error {
	if r.ContentLength < 0 || len(r.Header["Content-Length"]) == 0 {
		return api.LengthRequired()
	}
	return TakeStream(w, r, take)
}

// TakeStream hands a body to take, with its length or -1 where nobody knows that.
func TakeStream(w http.ResponseWriter, r *http.Request, take func(size int64, body io.Reader) error) error {
	body := newPatientBody(w, r.Body)
	if err := take(r.ContentLength, body); err != nil {
		if _, told := errors.AsType[*errdefs.Error](err); !told && errors.Is(err, io.ErrUnexpectedEOF) {
			return errdefs.Wrap(err, errdefs.InvalidArgument, "the body ended before its Content-Length of %d bytes", r.ContentLength)
		}
		return err
	}
	return body.finish()
}

// answer ends a request that is answered with JSON.
func answer(w http.ResponseWriter, r *http.Request, v any, err error) {
	if err != nil {
		api.WriteError(w, r, err)
		return
	}
	api.WriteJSON(w, r, http.StatusOK, v)
}
