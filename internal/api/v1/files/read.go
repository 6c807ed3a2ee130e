package files

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/protocol"
)

// ReadInput is a request for a file.
type ReadInput struct {
	SessionFiles
	Path     string `query:"path" required:"true" maxLength:"4096" doc:"Absolute, or from /workspace." example:"/workspace/a.txt"`
	MaxBytes int64  `query:"max_bytes" minimum:"1" maximum:"9007199254740991" doc:"At most this much of the file: 10 MiB if not given and at most 64 MiB as JSON; the whole file if not given as bytes."`
	Offset   int64  `query:"offset" minimum:"0" maximum:"9007199254740991" doc:"Where in the file to begin."`
	Raw      bool   `query:"raw" doc:"The bytes themselves instead of JSON. Accept: application/octet-stream or a Range asks for them, too."`
	As       string `query:"as" enum:"page" doc:"page: as text/html with a Content-Security-Policy by which a browser runs nothing of it and loads nothing for it, to be shown in a frame of the same origin. The file must be text in UTF-8 of up to 1 MiB."`
	Range    string `header:"Range" maxLength:"256" doc:"One range of bytes, answered with 206. It does not go together with offset and max_bytes." example:"bytes=0-1023"`
	IfRange  string `header:"If-Range" maxLength:"256" doc:"The ETag of an earlier answer: if the file is another one by now, it is sent as a whole."`
}

// Bytes of a file in one JSON answer.
const (
	defaultRead = 10 << 20
	MaxRead     = 64 << 20
)

// Content is the JSON of fs/read. It is written piece by piece, so the type is
// for the document only.
type Content struct {
	Path          string `json:"path" example:"/workspace/a.txt"`
	Size          int64  `json:"size" doc:"Of the whole file." example:"3"`
	Mode          string `json:"mode" example:"0644"`
	ContentBase64 string `json:"content_base64" example:"aGkK"`
	Truncated     bool   `json:"truncated" doc:"The file goes on behind this."`
}

// Read answers with a file, or a part of it.
func (h *Handlers) Read(ctx context.Context, in *ReadInput) (*kit.Stream, error) {
	id, err := h.Find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	return kit.Streaming(func(w http.ResponseWriter, r *http.Request) {
		send := h.readJSON
		if in.As == "page" {
			send = h.readPage
		} else if in.Raw || in.Range != "" || accepts(r, "application/octet-stream") {
			send = h.readRaw
		}
		if err := send(w, r, id, in); err != nil {
			api.WriteError(w, r, err)
		}
	}), nil
}

// accepts reports whether the request names a media type as one that it takes.
func accepts(r *http.Request, media string) bool {
	for _, value := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(value, ",") {
			name, _, _ := strings.Cut(part, ";")
			if strings.EqualFold(strings.TrimSpace(name), media) {
				return true
			}
		}
	}
	return false
}

// readJSON returns an error as long as nothing was sent.
func (h *Handlers) readJSON(w http.ResponseWriter, r *http.Request, id session.ID, in *ReadInput) error {
	most := in.MaxBytes
	if most > MaxRead {
		return errdefs.Invalid("max_bytes", "must be at most %d; use raw=1 for more", MaxRead)
	}
	if most == 0 {
		most = defaultRead
	}
	// One more shows whether there is more.
	info, content, err := h.Manager.Files.Read(r.Context(), api.Caller(r.Context()), string(id), protocol.Read{Path: in.Path, Offset: in.Offset, MaxBytes: most + 1, User: in.User})
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	buffered := bufio.NewWriterSize(api.Patient(w), 64<<10)
	whole(r, sendJSON(buffered, info, content, most), buffered.Flush, content.Close)
	return nil
}

// whole ends an answer whose status is sent. If something failed, a broken
// connection is all that can still tell the client that it is not whole.
func whole(r *http.Request, err error, last ...func() error) {
	for _, do := range last {
		err = errors.Join(err, do())
	}
	if err != nil {
		api.Failed(r.Context(), err)
		panic(http.ErrAbortHandler)
	}
}

// sendJSON answers with at most most bytes of the content.
func sendJSON(w io.Writer, info protocol.FileInfo, content io.Reader, most int64) error {
	name, err := json.Marshal(info.Name)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, `{"path":%s,"size":%d,"mode":%q,"content_base64":"`, name, info.Size, modeText(info.Mode)); err != nil {
		return err
	}
	encoder := base64.NewEncoder(base64.StdEncoding, w)
	if _, err := transfer(encoder, io.LimitReader(content, most)); err != nil {
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

// readRaw returns an error as long as nothing was sent.
func (h *Handlers) readRaw(w http.ResponseWriter, r *http.Request, id session.ID, in *ReadInput) error {
	part, err := h.open(r, id, in)
	if err != nil {
		if e, ok := errors.AsType[*rangeError](err); ok {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", e.size))
		}
		return err
	}
	// What fails up to here has an answer of its own. Behind it a broken connection is
	// all that can still tell of it.
	content, err := begun(part, r.Method)
	if err != nil {
		_ = part.content.Close() // it is the same failure
		return err
	}
	header := w.Header()
	header.Set("Content-Type", "application/octet-stream")
	saveAs(header, baseName(in.Path))
	header.Set("X-File-Size", strconv.FormatInt(part.info.Size, 10))
	header.Set("X-File-Mode", modeText(part.info.Mode))
	header.Set("Accept-Ranges", "bytes")
	if part.info.Tag != "" {
		header.Set("ETag", part.info.Tag)
	}
	header.Set("Last-Modified", time.UnixMilli(part.info.ModTimeMS).UTC().Format(http.TimeFormat))
	if !protection.Off(protection.FileLength) {
		header.Set("Content-Length", strconv.FormatInt(part.bytes, 10))
	}
	status := http.StatusOK
	if part.ranged {
		status = http.StatusPartialContent
		header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", part.offset, part.offset+part.bytes-1, part.info.Size))
	}
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, err = transfer(api.Patient(w), content)
	}
	whole(r, err, part.content.Close)
	return nil
}

// begun is the content of a part whose first bytes are there. A file that another has
// emptied since its size was told has none.
func begun(part portion, method string) (io.Reader, error) {
	if part.bytes == 0 || method == http.MethodHead {
		return part.content, nil
	}
	var first [512]byte
	n, err := io.ReadAtLeast(part.content, first[:], 1)
	if err != nil {
		return nil, errdefs.Wrap(err, errdefs.Conflict, "the file was changed while it was read; read it again").Because(errdefs.FileChanged)
	}
	return io.MultiReader(bytes.NewReader(first[:n]), part.content), nil
}

// saveAs keeps a browser from showing or running what a sandbox wrote: it has
// the origin of the API.
func saveAs(header http.Header, name string) {
	if protection.Off(protection.SaveAs) {
		return
	}
	header.Set("Content-Disposition", api.Attachment(protocol.UnescapeName(name)))
	header.Set("Content-Security-Policy", "sandbox")
}

// portion is the part of a file that an answer has.
type portion struct {
	info          protocol.FileInfo
	content       io.ReadCloser
	offset, bytes int64
	ranged        bool // it was asked for with a Range header
}

// open opens what the request asks for. The caller closes its content.
func (h *Handlers) open(r *http.Request, id session.ID, in *ReadInput) (portion, error) {
	want, err := parseRange(in.Range)
	if err != nil {
		return portion{}, err
	}
	if want == nil {
		return h.openAt(r, id, in, in.Offset, in.MaxBytes)
	}
	if in.Offset != 0 || in.MaxBytes != 0 {
		return portion{}, errdefs.Invalid("Range", "must not be sent together with offset or max_bytes")
	}
	if in.IfRange != "" || want.last {
		now, err := h.Manager.Files.Stat(r.Context(), api.Caller(r.Context()), string(id), protocol.Stat{Path: in.Path, Follow: true, Tag: true, User: in.User})
		if err != nil {
			return portion{}, err
		}
		if in.IfRange != "" && (in.IfRange != now.Tag || strings.HasPrefix(now.Tag, "W/")) {
			return h.openAt(r, id, in, 0, 0)
		}
		want.resolve(now.Size)
	}
	part, err := h.openAt(r, id, in, want.offset, want.bytes)
	if err != nil {
		return portion{}, err
	}
	if part.bytes == 0 {
		return portion{}, errors.Join(newRangeError(part.info.Size), part.content.Close())
	}
	part.ranged = true
	return part, nil
}

// openAt opens a file for at most most bytes from offset on; 0 is all. For HEAD
// it opens no more than shows that the file can be read.
func (h *Handlers) openAt(r *http.Request, id session.ID, in *ReadInput, offset, most int64) (portion, error) {
	read := protocol.Read{Path: in.Path, Offset: offset, MaxBytes: most, Tag: true, User: in.User}
	if r.Method == http.MethodHead {
		read.MaxBytes = 1
	}
	info, content, err := h.Manager.Files.Read(r.Context(), api.Caller(r.Context()), string(id), read)
	if err != nil {
		return portion{}, err
	}
	n := max(0, info.Size-offset)
	if most > 0 {
		n = min(n, most)
	}
	return portion{info: info, content: content, offset: offset, bytes: n}, nil
}
