package files

import (
	"path"
	"strings"
	"unicode/utf8"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/protocol"
)

// Workspace is where relative paths start.
const Workspace = "/workspace"

// maxComponent bounds a name between two slashes, as file systems do.
const maxComponent = 255

// filePath makes a path of the request field absolute and clean, once and for
// all. It refuses what is no path and, by its spelling, what leaves the
// workspace; the runner refuses what leaves it by a symlink.
func (f *Files[ID]) filePath(id ID, field, name string) (string, error) {
	switch {
	case name == "":
		return "", errdefs.Invalid(field, "must not be empty")
	case strings.ContainsRune(name, 0):
		return "", errdefs.Invalid(field, "must not contain a NUL byte")
	case !utf8.ValidString(name):
		return "", errdefs.Invalid(field, "must be valid UTF-8")
	case name != "/" && strings.HasSuffix(name, "/"):
		return "", errdefs.Invalid(field, "must not end in a slash")
	}
	if !path.IsAbs(name) {
		name = Workspace + "/" + name
	}
	if len(name) > protocol.MaxPath {
		return "", errdefs.Invalid(field, "must be at most %d bytes", protocol.MaxPath)
	}
	for component := range strings.SplitSeq(name, "/") {
		if len(component) > maxComponent {
			return "", errdefs.Invalid(field, "must not have a component of more than %d bytes", maxComponent)
		}
	}
	name = path.Clean(name)
	if !f.opts.Anywhere(id) && name != Workspace && !strings.HasPrefix(name, Workspace+"/") {
		return "", errdefs.Invalid(field, "must be inside %s, where relative paths start; a session that is created with file_scope sandbox reaches the others", Workspace).Because(errdefs.OutsideWorkspace)
	}
	return name, nil
}

// inside is name as the runner is asked for it. It knows where its workspace
// is; absolute paths are for what is elsewhere.
func inside(name string) string {
	if name == Workspace {
		return "."
	}
	return strings.TrimPrefix(name, Workspace+"/")
}

// removable is RunnerPath for what is to be moved or removed, which the
// workspace itself and the root cannot be.
func (f *Files[ID]) removable(id ID, field, name string) (string, error) {
	name, err := f.filePath(id, field, name)
	if err != nil {
		return "", err
	}
	if name == Workspace || name == "/" {
		return "", errdefs.Invalid(field, "must be something below %s: that itself stays", name)
	}
	return inside(name), nil
}
