package session

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
func (c *Files) Pack(ctx context.Context, p auth.Principal, id ID, r protocol.Pack) (archive io.ReadCloser, err error) {
	e, err := c.reach(ctx, p, id)
	if err != nil {
		return nil, err
	}
	if err := checkFormat(r.Format); err != nil {
		return nil, err
	}
	if r.Path, err = c.directory(e, r.Path); err != nil {
		return nil, err
	}
	r.AllowOutside = c.reachesAll(e)
	return c.stream(ctx, e, r.User, func(runner *runnerclient.Client) (io.ReadCloser, error) { return runner.Pack(ctx, r) })
}

// Unpack extracts an archive of exactly size bytes into a directory. What
// was extracted before an error stays.
func (c *Files) Unpack(ctx context.Context, p auth.Principal, id ID, u protocol.Unpack, size int64, archive io.Reader) (done protocol.Unpacked, err error) {
	e, err := c.reach(ctx, p, id)
	if err != nil {
		return done, err
	}
	if size < 0 {
		return done, errdefs.Invalid("size", "must not be negative")
	}
	if size > c.opts.Maxima.FileBytes {
		return done, errdefs.New(errdefs.TooLarge, "the archive has %d bytes; the maximum is %d", size, c.opts.Maxima.FileBytes)
	}
	if err := checkFormat(u.Format); err != nil {
		return done, err
	}
	if u.Path, err = c.directory(e, u.Path); err != nil {
		return done, err
	}
	u.AllowOutside = c.reachesAll(e)
	return answerOf(ctx, c, e, u.User, func(runner *runnerclient.Client) (protocol.Unpacked, error) {
		return runner.Unpack(ctx, u, size, archive)
	})
}

func checkFormat(format string) error {
	if !slices.Contains(ArchiveFormats, format) {
		return errdefs.Invalid("format", "must be one of %s", strings.Join(ArchiveFormats, ", "))
	}
	return nil
}
