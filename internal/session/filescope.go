package session

import (
	"cmp"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// FileScope is what the calls for files reach of a session's sandbox. It keeps
// nothing from who may run commands there: it is a rail for tools that are given
// paths by a model.
type FileScope string

// The scopes. Without one a session has its owner's, or the daemon's.
const (
	FileScopeWorkspace FileScope = "workspace" // what is below /workspace
	FileScopeSandbox   FileScope = "sandbox"   // any path
)

// Check refuses what is no scope; "" is none.
func (s FileScope) Check() error {
	switch s {
	case "", FileScopeWorkspace, FileScopeSandbox:
		return nil
	}
	return errdefs.Invalid("file_scope", "must be workspace or sandbox")
}

// reachesAll reports whether the calls for files reach all of a session's sandbox.
// What a session did not ask for follows the configuration, over restarts, too.
func (c *core) reachesAll(s Session) bool {
	if scope := cmp.Or(s.FileScope, c.opts.FileScopeOf[s.Owner]); scope != "" {
		return scope == FileScopeSandbox
	}
	return c.opts.FilesOutsideWorkspace
}
