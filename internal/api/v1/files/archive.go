package files

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
	"github.com/sandkasten/sandkasten/protocol"
)

// ArchiveTypes are the media types of archives, by format.
var ArchiveTypes = map[string]string{
	"tar":     "application/x-tar",
	"tar.gz":  "application/gzip",
	"tar.zst": "application/zstd",
	"zip":     "application/zip",
}

// ArchiveInput is a request to pack or unpack a directory.
type ArchiveInput struct {
	SessionFiles
	Path   string `query:"path" default:"/workspace" maxLength:"4096" doc:"A directory, absolute or from /workspace."`
	Format string `query:"format" default:"tar.gz" enum:"tar,tar.gz,tar.zst,zip" doc:"Of the archive."`
}

// UnpackInput is a request to unpack a body.
type UnpackInput struct {
	SessionFiles
	Path   string `query:"path" default:"/workspace" maxLength:"4096" doc:"A directory, absolute or from /workspace."`
	Format string `query:"format" enum:"tar,tar.gz,tar.zst,zip" doc:"Of the archive. Without it the body's first bytes tell."`
}

// peekBytes of an archive tell its format: a tar file has its mark at their end.
const peekBytes = 262

// formatOf tells an archive's format by its beginning.
func formatOf(head []byte) string {
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return "tar.gz"
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return "tar.zst"
	case bytes.HasPrefix(head, []byte("PK")):
		return "zip"
	case len(head) == peekBytes && string(head[257:]) == "ustar" || bytes.Count(head, []byte{0}) == len(head): // or an empty one
		return "tar"
	}
	return "tar.gz"
}

// Unpacked is the answer to an archive that was unpacked.
type Unpacked struct {
	Files int   `json:"files" doc:"Entries that were made, directories and links included." example:"12"`
	Bytes int64 `json:"bytes" doc:"In all of them." example:"48211"`
}

// Pack answers with a directory as an archive.
func (h *Handlers) Pack(ctx context.Context, in *ArchiveInput) (*kit.Stream, error) {
	id, err := h.Find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	return kit.Streaming(func(w http.ResponseWriter, r *http.Request) {
		archive, err := h.Manager.Files.Pack(r.Context(), api.Caller(ctx), string(id), protocol.Pack{Path: in.Path, Format: in.Format, User: in.User})
		if err != nil {
			api.WriteError(w, r, err)
			return
		}
		w.Header().Set("Content-Type", ArchiveTypes[in.Format])
		Download(w, r, baseName(in.Path)+"."+in.Format, archive)
	}), nil
}

// Download answers with all of content, which it closes, as a file of that
// name. An answer that was cut short ends in a broken connection.
func Download(w http.ResponseWriter, r *http.Request, name string, content io.ReadCloser) {
	saveAs(w.Header(), name)
	w.WriteHeader(http.StatusOK)
	var err error
	if r.Method != http.MethodHead {
		_, err = transfer(api.Patient(w), content)
	}
	whole(r, err, content.Close)
}

// Unpack extracts the request's body into a directory while it arrives.
func (h *Handlers) Unpack(ctx context.Context, in *UnpackInput) (*kit.Stream, error) {
	id, err := h.Find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	return kit.Streaming(func(w http.ResponseWriter, r *http.Request) {
		var done protocol.Unpacked
		err := TakeBody(w, r, func(size int64, body io.Reader) (err error) {
			unpack := protocol.Unpack{Path: in.Path, Format: in.Format, User: in.User}
			if unpack.Format == "" {
				peeked := bufio.NewReader(body)
				head, err := peeked.Peek(peekBytes)
				if err != nil && !errors.Is(err, io.EOF) {
					return err
				}
				unpack.Format, body = formatOf(head), peeked
			}
			done, err = h.Manager.Files.Unpack(r.Context(), api.Caller(ctx), string(id), unpack, size, body)
			return err
		})
		answer(w, r, Unpacked(done), err)
	}), nil
}
