package check

import (
	"path"
	"strings"
	"unicode/utf8"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/protocol"
)

// WorkspaceDir is where relative paths start.
const WorkspaceDir = "/workspace"

// maxComponent bounds a name between two slashes, as file systems do.
const maxComponent = 255

// Path makes a path of the request field absolute and clean, once and for all. It
// refuses what is no path and, by its spelling, what leaves the workspace unless
// it may be anywhere; the runner refuses what leaves it by a symlink.
func Path(field, name string, anywhere bool) (string, error) {
	switch {
	case name == "":
		return "", errdefs.Invalid(field, "must not be empty")
	case strings.ContainsRune(name, 0):
		return "", errdefs.Invalid(field, "must not contain a NUL byte")
	case !utf8.ValidString(name):
		return "", errdefs.Invalid(field, `must be valid UTF-8; write other bytes of a name as \xHH, as listings do`)
	case name != "/" && strings.HasSuffix(name, "/"):
		return "", errdefs.Invalid(field, "must not end in a slash")
	}
	if !path.IsAbs(name) {
		name = WorkspaceDir + "/" + name
	}
	raw := protocol.UnescapeName(name)
	if len(raw) > protocol.MaxPath {
		return "", errdefs.Invalid(field, "must be at most %d bytes", protocol.MaxPath)
	}
	for component := range strings.SplitSeq(raw, "/") {
		if len(component) > maxComponent {
			return "", errdefs.Invalid(field, "must not have a component of more than %d bytes", maxComponent)
		}
	}
	name = path.Clean(name)
	if !anywhere && name != WorkspaceDir && !strings.HasPrefix(name, WorkspaceDir+"/") {
		return "", errdefs.Invalid(field, "must be inside %s, where relative paths start; a session that is created with file_scope sandbox reaches the others", WorkspaceDir).Because(errdefs.OutsideWorkspace)
	}
	return name, nil
}
