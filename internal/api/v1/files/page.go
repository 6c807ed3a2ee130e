package files

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"regexp"
	"unicode/utf8"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/protocol"
)

// maxPage is the size of the largest file that is sent as a page.
const maxPage = 1 << 20

// pagePolicy has a browser run nothing of a page that a sandbox wrote, load nothing for
// it, and keep it apart from the API, whose address it has. A frame of the console's may
// have it, and of nobody else's.
const pagePolicy = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; media-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'self'"

// connecting are the elements for which browsers connect before they look at a policy:
// for rel=preconnect, and for what is in a frame.
var connecting = regexp.MustCompile(`(?i)<(/?)(link|i?frame|object|embed|portal|fencedframe)`)

// unknown is a name that no browser knows.
const unknown = "<${1}no-$2"

// byteOrderMark comes before any other word about a text's encoding.
const byteOrderMark = "\ufeff"

// readPage returns an error as long as nothing was sent.
func (h *Handlers) readPage(w http.ResponseWriter, r *http.Request, id session.ID, in *ReadInput) (err error) {
	if in.Raw || in.Range != "" || in.Offset != 0 || in.MaxBytes != 0 {
		return errdefs.Invalid("as", "must not be sent together with raw, offset, max_bytes or Range")
	}
	info, content, err := h.Manager.Files.Read(r.Context(), api.Caller(r.Context()), string(id), protocol.Read{Path: in.Path, MaxBytes: maxPage + 1, User: in.User})
	if err != nil {
		return err
	}
	text, err := io.ReadAll(content)
	if err := errors.Join(err, content.Close()); err != nil {
		return err
	}
	if len(text) > maxPage {
		return errdefs.New(errdefs.TooLarge, "%s has %d bytes, and a page must have at most %d; read it with raw=1", in.Path, info.Size, maxPage)
	}
	if !utf8.Valid(text) {
		return errdefs.Invalid("as", "can be page for text in UTF-8 only; read %s with raw=1", in.Path)
	}
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", pagePolicy)
	header.Set("X-Frame-Options", "SAMEORIGIN")
	header.Set("X-DNS-Prefetch-Control", "off")
	header.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(http.StatusOK)
	page := connecting.ReplaceAll(bytes.TrimPrefix(text, []byte(byteOrderMark)), []byte(unknown))
	_, err = api.Patient(w).Write(append([]byte(byteOrderMark), page...))
	whole(r, err)
	return nil
}
