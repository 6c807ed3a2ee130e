package v1

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/protocol"
)

type readInput struct {
	SessionPath
	Path     string `query:"path" required:"true" maxLength:"4096" doc:"Absolute, or from /workspace." example:"/workspace/a.txt"`
	MaxBytes int64  `query:"max_bytes" minimum:"1" maximum:"9007199254740991" doc:"At most this much of the file: 10 MiB if not given and at most 64 MiB as JSON; with raw=1 the whole file if not given."`
	Offset   int64  `query:"offset" minimum:"0" maximum:"9007199254740991" doc:"Where in the file to begin."`
	Raw      bool   `query:"raw" doc:"The bytes themselves instead of JSON."`
}

// Bytes of a file in one JSON answer.
const (
	defaultRead = 10 << 20
	maxRead     = 64 << 20
)

func (s *surface) readFile(ctx context.Context, in *readInput) (*huma.StreamResponse, error) {
	id, err := s.find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	most := in.MaxBytes
	if !in.Raw {
		if most > maxRead {
			return nil, errdefs.Invalid("max_bytes", "must be at most %d; use raw=1 for more", maxRead)
		}
		if most == 0 {
			most = defaultRead
		}
		most++ // one more shows whether there is more
	}
	info, content, err := s.manager.ReadFile(ctx, id, in.Path, in.Offset, most)
	if err != nil {
		return nil, err
	}
	return streaming(func(w http.ResponseWriter, r *http.Request) {
		send := sendJSON
		if in.Raw {
			send = sendRaw
		}
		err := send(patientWriter(w), w.Header(), info, content, most-1)
		if err = errors.Join(err, content.Close()); err != nil {
			// The status is sent. A broken connection is all that can still
			// tell the client that the file is not whole.
			api.Failed(r.Context(), err)
			panic(http.ErrAbortHandler)
		}
	}), nil
}

// sendRaw answers with the content. The name in the header is for browsers,
// which must neither show the file nor run it.
func sendRaw(w io.Writer, header http.Header, info protocol.FileInfo, content io.Reader, _ int64) error {
	header.Set("Content-Type", "application/octet-stream")
	header.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(info.Name)}))
	header.Set("Content-Security-Policy", "sandbox")
	header.Set("X-File-Size", strconv.FormatInt(info.Size, 10))
	header.Set("X-File-Mode", modeText(info.Mode))
	_, err := io.Copy(w, content)
	return err
}

// sendJSON answers with at most most bytes of the content. It goes through
// piece by piece: a file is never in memory as a whole.
func sendJSON(w io.Writer, header http.Header, info protocol.FileInfo, content io.Reader, most int64) error {
	header.Set("Content-Type", "application/json")
	name, err := json.Marshal(info.Name)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, `{"path":%s,"size":%d,"mode":%q,"content_base64":"`, name, info.Size, modeText(info.Mode)); err != nil {
		return err
	}
	encoder := base64.NewEncoder(base64.StdEncoding, w)
	if _, err := io.Copy(encoder, io.LimitReader(content, most)); err != nil {
		return err
	}
	if err := encoder.Close(); err != nil {
		return err
	}
	more, err := io.Copy(io.Discard, content)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, `","truncated":%t}`+"\n", more > 0)
	return err
}

func modeText(mode uint32) string { return fmt.Sprintf("%04o", mode&0o7777) }

// patientWriter gives a client a new deadline for every write, so that a big
// file may take its time and a client that takes nothing may not.
func patientWriter(w http.ResponseWriter) io.Writer {
	return &deadlineWriter{w: w, control: http.NewResponseController(w)}
}

type deadlineWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func (d *deadlineWriter) Write(p []byte) (int, error) {
	if err := d.control.SetWriteDeadline(time.Now().Add(api.WriteTimeout)); err != nil {
		return 0, err
	}
	return d.w.Write(p)
}

type writeInput struct {
	SessionPath
	Body WriteRequest
}

// WriteRequest is a file to be written. Exactly one of Text and ContentBase64
// is given.
type WriteRequest struct {
	Path          string  `json:"path" minLength:"1" maxLength:"4096" doc:"Absolute, or from /workspace." example:"/workspace/a.txt"`
	Text          *string `json:"text,omitempty" doc:"The file as UTF-8." example:"hi\n"`
	ContentBase64 *string `json:"content_base64,omitempty" doc:"The file in standard base64."`
	Mode          string  `json:"mode,omitempty" pattern:"^0?[0-7]{3}$" patternDescription:"an octal mode like 0644" doc:"Without it 0644, or the mode that the file has." example:"0644"`
}

func (s *surface) writeFile(ctx context.Context, in *writeInput) (*okOutput, error) {
	id, err := s.find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	content, size, err := in.Body.content(s.opts.WriteBytes)
	if err != nil {
		return nil, err
	}
	mode, err := strconv.ParseUint("0"+in.Body.Mode, 8, 32)
	if err != nil {
		return nil, errdefs.Invalid("mode", "must be an octal mode like 0644")
	}
	if err := s.manager.WriteFile(ctx, id, in.Body.Path, uint32(mode), size, content); err != nil {
		return nil, err
	}
	return &okOutput{OK{true}}, nil
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
	err := errdefs.New(errdefs.TooLarge, "%s must be at most %d bytes; use fs/upload for more", field, most)
	err.Field = field
	return err
}

type listFilesInput struct {
	SessionPath
	Path string `query:"path" default:"/workspace" maxLength:"4096" doc:"A directory, absolute or from /workspace."`
}

// FileList is a directory.
type FileList struct {
	Path      string  `json:"path" example:"/workspace"`
	Entries   []Entry `json:"entries" nullable:"false"`
	Truncated bool    `json:"truncated" doc:"There are more entries."`
}

// Entry is one name in a directory.
type Entry struct {
	Name       string    `json:"name" example:"a.txt"`
	Type       string    `json:"type" enum:"file,dir,symlink,other"`
	Size       int64     `json:"size" example:"3"`
	Mode       string    `json:"mode" example:"0644"`
	ModifiedAt time.Time `json:"modified_at"`
	Target     string    `json:"target,omitempty" doc:"Of a symlink."`
}

type listFilesOutput struct{ Body FileList }

func (s *surface) listFiles(ctx context.Context, in *listFilesInput) (*listFilesOutput, error) {
	id, err := s.find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	files, truncated, err := s.manager.ListFiles(ctx, id, in.Path)
	if err != nil {
		return nil, err
	}
	list := FileList{Path: in.Path, Entries: make([]Entry, 0, len(files)), Truncated: truncated}
	for _, f := range files {
		list.Entries = append(list.Entries, Entry{
			Name: f.Name, Type: f.Type, Size: f.Size, Mode: modeText(f.Mode),
			ModifiedAt: time.UnixMilli(f.ModTimeMS).UTC(), Target: f.Target,
		})
	}
	return &listFilesOutput{list}, nil
}
