package session

import (
	"path"
	"strings"
	"unicode/utf8"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/protocol"
)

// workspace is where relative paths start.
const workspace = "/workspace"

// maxComponent bounds a name between two slashes, as file systems do.
const maxComponent = 255

// filePath makes a path of the request field absolute and clean, once and for
// all. It refuses what is no path and, by its spelling, what leaves the
// workspace; the runner refuses what leaves it by a symlink.
func (m *Manager) filePath(field, name string) (string, error) {
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
		name = workspace + "/" + name
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
	if !m.opts.FilesOutsideWorkspace && name != workspace && !strings.HasPrefix(name, workspace+"/") {
		return "", errdefs.Invalid(field, "must be inside %s; relative paths start there", workspace)
	}
	return name, nil
}

// inside is name as the runner is asked for it. It knows where its workspace
// is; absolute paths are for what is elsewhere.
func inside(name string) string {
	if name == workspace {
		return "."
	}
	return strings.TrimPrefix(name, workspace+"/")
}

// removable is runnerPath for what is to be moved or removed, which the
// workspace itself and the root cannot be.
func (m *Manager) removable(field, name string) (string, error) {
	name, err := m.filePath(field, name)
	if err != nil {
		return "", err
	}
	if name == workspace || name == "/" {
		return "", errdefs.Invalid(field, "must be something below %s: that itself stays", name)
	}
	return inside(name), nil
}
