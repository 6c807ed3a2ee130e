package extract

import (
	"fmt"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// Limits bounds what one archive may cost. Every field must be set; start
// from DefaultLimits.
type Limits struct {
	Bytes   int64 // of the uncompressed archive, and of the files it makes, holes included
	Entries int64
	Depth   int // directories in one path
	Path    int // bytes in one path
	Link    int // bytes in one link target
	Ratio   int64
	Free    int64 // uncompressed bytes before Ratio counts
}

// DefaultLimits are far above what real images need.
func DefaultLimits() Limits {
	return Limits{
		Bytes:   32 << 30,
		Entries: 2_000_000,
		Depth:   128,
		Path:    1024,
		Link:    1024,
		Ratio:   200,
		Free:    10 << 20,
	}
}

// Caps on one decoder's memory. A window above maxWindow is refused: it would
// let a few bytes of input ask for gigabytes.
const (
	maxDecoderMemory = 64 << 20
	maxWindow        = 32 << 20
	copyBuffer       = 256 << 10
	maxNameBytes     = 255 // NAME_MAX
	maxLinksFollowed = 40  // what Linux allows in one lookup
	maxID            = 65534
	keepID           = -1 // chown leaves the owner
)

func malformed(format string, args ...any) error {
	return errdefs.New(errdefs.Unprocessable, "the archive is refused: %s", fmt.Sprintf(format, args...))
}

func unreadableArchive(cause error) error {
	return errdefs.Wrap(cause, errdefs.Unprocessable, "the archive is damaged or not a tar archive (plain, gzip or zstd)")
}

func tooLarge(format string, args ...any) error {
	return errdefs.New(errdefs.TooLarge, "the archive is refused: %s", fmt.Sprintf(format, args...))
}
