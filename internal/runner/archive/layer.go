package archive

import (
	"errors"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/tree"
	"github.com/sandkasten/sandkasten/protocol"
)

// How a layer of an OCI image says that files of the layers below are gone.
const (
	whiteoutPrefix = ".wh."
	opaqueMarker   = ".wh..wh..opq" // all of the directory
)

// opaqueXattr is how overlayfs marks a directory that hides those below.
const opaqueXattr = "user.overlay.opaque"

// Selection says what of a directory is packed. Its zero value is everything.
type Selection struct {
	Include []string // paths from the directory: only these, and what is below them
	Exclude []string // and not these
	// Layer says that the directory is the upper one of an overlay. What it
	// removes is packed as whiteouts. Files that have the names of such are left
	// out, for they would be taken for them.
	Layer bool
}

// picks reports whether a path is selected, of which nothing else is known.
func (s Selection) picks(at string) bool {
	in := func(x string) bool { return at == x || strings.HasPrefix(at, x+"/") }
	return !slices.ContainsFunc(s.Exclude, in) && (len(s.Include) == 0 || slices.ContainsFunc(s.Include, in))
}

func (s Selection) selects(w *tree.Walk, e *tree.Entry) bool {
	if s.Layer && strings.HasPrefix(e.Name, whiteoutPrefix) {
		return false
	}
	if len(s.Include)+len(s.Exclude) == 0 {
		return true
	}
	at := w.Path()
	for _, x := range s.Exclude {
		if at == x { // and so nothing below it is come to
			return false
		}
	}
	for _, x := range s.Include {
		if at == x || strings.HasPrefix(at, x+"/") || e.Type() == unix.S_IFDIR && strings.HasPrefix(x, at+"/") {
			return true
		}
	}
	return len(s.Include) == 0
}

// opaque packs the mark of a directory that hides those below.
func (p *packer) opaque(dir int, at string) error {
	var value [1]byte
	n, err := unix.Fgetxattr(dir, opaqueXattr, value[:])
	switch {
	case errors.Is(err, unix.ENODATA), errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.ERANGE):
		return nil
	case err != nil || n != 1 || value[0] != 'y':
		return err
	}
	return p.whiteout(at + "/" + opaqueMarker)
}

func (p *packer) whiteout(at string) error {
	return p.header(at, &unix.Stat_t{Mode: unix.S_IFREG}, "")
}

// whiteout does what a layer's entry of such a name says, and reports whether
// it was one.
func (u *unpacker) whiteout(name string) (bool, error) {
	dir, base := path.Split(name)
	if u.how != protocol.SnapshotLayer || !strings.HasPrefix(base, whiteoutPrefix) {
		return false, nil
	}
	if base == opaqueMarker {
		if dir == "" {
			return true, malformed("it removes the whole root")
		}
		up, _, err := u.parent(name)
		if err != nil {
			return true, err
		}
		return true, tree.Empty(up, ".", u.check)
	}
	gone := strings.TrimPrefix(base, whiteoutPrefix)
	if gone == "" || gone == "." || gone == ".." || strings.HasPrefix(gone, whiteoutPrefix) {
		return true, malformed("%q is not a name that can be removed", name)
	}
	up, _, err := u.parent(name)
	if err != nil {
		return true, err
	}
	return true, u.vacate(up, gone, dir+gone)
}
