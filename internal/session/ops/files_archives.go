package ops

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/protocol"
)

// ArchiveFormats are those of PackFiles and UnpackFiles.
var ArchiveFormats = []string{"tar", "tar.gz", "tar.zst", "zip"}

// Pack opens a directory, or a file, as an archive. The caller closes the
// reader, within the life of ctx. An archive that was cut short does not end in
// io.EOF.
func (f *Files) Pack(ctx context.Context, p auth.Principal, id string, r protocol.Pack) (archive io.ReadCloser, err error) {
	s, err := f.find(ctx, p, id)
	if err != nil {
		return nil, err
	}
	if err := checkFormat(r.Format); err != nil {
		return nil, err
	}
	if r.Path, err = directory(s, r.Path); err != nil {
		return nil, err
	}
	r.AllowOutside = s.Now().AllFiles
	return f.stream(ctx, s, r.User, func(runner *runnerclient.Client) (io.ReadCloser, error) { return runner.Pack(ctx, r) })
}

// Unpack extracts an archive of exactly size bytes into a directory. What
// was extracted before an error stays.
func (f *Files) Unpack(ctx context.Context, p auth.Principal, id string, u protocol.Unpack, size int64, archive io.Reader) (done protocol.Unpacked, err error) {
	s, err := f.find(ctx, p, id)
	if err != nil {
		return done, err
	}
	if size < 0 {
		return done, errdefs.Invalid("size", "must not be negative")
	}
	if size > f.maxBytes {
		return done, errdefs.New(errdefs.TooLarge, "the archive has %d bytes; the maximum is %d", size, f.maxBytes)
	}
	if err := checkFormat(u.Format); err != nil {
		return done, err
	}
	if u.Path, err = directory(s, u.Path); err != nil {
		return done, err
	}
	u.AllowOutside = s.Now().AllFiles
	return answerOf(ctx, f, s, u.User, func(runner *runnerclient.Client) (protocol.Unpacked, error) {
		return runner.Unpack(ctx, u, size, archive)
	})
}

func checkFormat(format string) error {
	if !slices.Contains(ArchiveFormats, format) {
		return errdefs.Invalid("format", "must be one of %s", strings.Join(ArchiveFormats, ", "))
	}
	return nil
}
