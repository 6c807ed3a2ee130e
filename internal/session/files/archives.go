package files

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/protocol"
)

// ArchiveFormats are those of PackFiles and UnpackFiles.
var ArchiveFormats = []string{"tar", "tar.gz", "tar.zst", "zip"}

// PackFiles opens a directory, or a file, as an archive. The caller closes the
// reader, within the life of ctx. An archive that was cut short does not end in
// io.EOF.
func (f *Files[ID]) PackFiles(ctx context.Context, id ID, p protocol.Pack) (archive io.ReadCloser, err error) {
	if err := checkFormat(p.Format); err != nil {
		return nil, err
	}
	if p.Path, err = f.Directory(id, p.Path); err != nil {
		return nil, err
	}
	p.AllowOutside = f.opts.Anywhere(id)
	return f.stream(ctx, id, p.User, func(c *runnerclient.Client) (io.ReadCloser, error) { return c.Pack(ctx, p) })
}

// UnpackFiles extracts an archive of exactly size bytes into a directory. What
// was extracted before an error stays.
func (f *Files[ID]) UnpackFiles(ctx context.Context, id ID, u protocol.Unpack, size int64, archive io.Reader) (done protocol.Unpacked, err error) {
	if size < 0 {
		return done, errdefs.Invalid("size", "must not be negative")
	}
	if size > f.opts.MaxBytes {
		return done, errdefs.New(errdefs.TooLarge, "the archive has %d bytes; the maximum is %d", size, f.opts.MaxBytes)
	}
	if err := checkFormat(u.Format); err != nil {
		return done, err
	}
	if u.Path, err = f.Directory(id, u.Path); err != nil {
		return done, err
	}
	u.AllowOutside = f.opts.Anywhere(id)
	err = f.on(ctx, id, u.User, func(c *runnerclient.Client) (err error) {
		done, err = c.Unpack(ctx, u, size, archive)
		return err
	})
	return done, err
}

func checkFormat(format string) error {
	if !slices.Contains(ArchiveFormats, format) {
		return errdefs.Invalid("format", "must be one of %s", strings.Join(ArchiveFormats, ", "))
	}
	return nil
}
