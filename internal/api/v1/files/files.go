// Package files has the handlers of /v1 for the files of a session: bodies and
// answers, and the streams in both directions. Paths and limits are decided
// below it, in package session; the table of routes and their documentation are
// in the package above.
//
// A file's content passes through, piece by piece: no handler has a whole file
// or archive in memory, whatever its size.
package files

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"sync"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/v1/contract"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/protocol"
)

// Handlers answers the requests. All fields but SpoolDir are required.
type Handlers struct {
	Manager *session.Manager
	// Find returns the id of the session whose files they are, if the caller may use it.
	Find func(context.Context, contract.SessionPath) (session.ID, error)

	WriteBytes  int64  // of a file in one fs/write
	UploadBytes int64  // of one fs/upload
	SpoolDir    string // see v1.Options
}

// SessionFiles says of which session the files are, and whose rights hold.
type SessionFiles struct {
	contract.SessionPath
	User string `query:"user" maxLength:"129" doc:"The user of the sandbox whose rights hold, and to whom belongs what is made: a name or number, with :group if wanted. Without it, the sandbox's own." example:"1000:1000"`
}

// Entry is one file as it is listed.
type Entry struct {
	Name       string    `json:"name" doc:"Relative to the directory. Bytes that are not UTF-8 are written as \\xHH, in all paths of requests and answers." example:"a.txt"`
	Type       string    `json:"type" enum:"file,dir,symlink,fifo,socket,device"`
	Size       int64     `json:"size" example:"3"`
	Mode       string    `json:"mode" example:"0644"`
	UID        uint32    `json:"uid" doc:"The owner, as the sandbox sees it." example:"0"`
	GID        uint32    `json:"gid" example:"0"`
	ModifiedAt time.Time `json:"modified_at"`
	Target     string    `json:"target,omitempty" doc:"Of a symlink."`
}

func entryOf(f protocol.FileInfo) Entry {
	return Entry{
		Name: f.Name, Type: f.Type, Size: f.Size, Mode: modeText(f.Mode), UID: f.UID, GID: f.GID,
		ModifiedAt: time.UnixMilli(f.ModTimeMS).UTC(), Target: f.Target,
	}
}

func entriesOf(list []protocol.FileInfo) []Entry {
	entries := make([]Entry, 0, len(list))
	for _, f := range list {
		entries = append(entries, entryOf(f))
	}
	return entries
}

func modeText(mode uint32) string { return fmt.Sprintf("%04o", mode&0o7777) }

// Mode is the permission bits of a file in a request, in octal.
type Mode string

// bits is the mode as a number, 0 if it was left out.
func (m Mode) bits() (uint32, error) {
	bits, err := strconv.ParseUint("0"+string(m), 8, 32)
	if err != nil {
		return 0, errdefs.Invalid("mode", "must be an octal mode like 0644")
	}
	return uint32(bits), nil
}

// forNew is bits for what is made, where zero cannot be said: it is the default.
func (m Mode) forNew() (uint32, error) {
	bits, err := m.bits()
	if err == nil && m != "" && bits == 0 {
		err = errdefs.Invalid("mode", "must allow somebody something; take all away with fs/chmod")
	}
	return bits, err
}

// baseName is what a file at name is called where it is saved.
func baseName(name string) string { return path.Base(path.Join("/workspace", name)) }

// pieces are the buffers of transfers: large, so that a file costs few calls of
// the kernel, and as many as there are transfers.
var pieces = sync.Pool{New: func() any { return new([256 << 10]byte) }}

// transfer copies with a large buffer.
func transfer(dst io.Writer, src io.Reader) (int64, error) {
	buf := pieces.Get().(*[256 << 10]byte)
	defer pieces.Put(buf)
	return io.CopyBuffer(onlyWriter{dst}, onlyReader{src}, buf[:])
}

// These keep io.CopyBuffer from finding a way of its own.
type (
	onlyReader struct{ io.Reader }
	onlyWriter struct{ io.Writer }
)

// patientBody gives a client BodyTimeout for every read.
type patientBody struct {
	io.ReadCloser
	control *http.ResponseController
}

func newPatientBody(w http.ResponseWriter, body io.ReadCloser) *patientBody {
	return &patientBody{ReadCloser: body, control: http.NewResponseController(w)}
}

func (b *patientBody) Read(p []byte) (int, error) {
	if err := b.control.SetReadDeadline(time.Now().Add(api.BodyTimeout)); err != nil {
		return 0, err
	}
	return b.ReadCloser.Read(p)
}

// finish lets the rest of the request take as long as it needs. After an error
// the deadline stays, for net/http reads what is left of a body before it
// answers.
func (b *patientBody) finish() error { return b.control.SetReadDeadline(time.Time{}) }
