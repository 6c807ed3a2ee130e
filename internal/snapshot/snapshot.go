// Package snapshot is the form in which a snapshot is kept and travels between
// hosts: a tar file of a manifest and of one compressed tar file for each part
// of the sandbox. Nothing in it is trusted until it has been read to its end.
// Where archives are kept, and what is done with them, is not decided here.
//
//	manifest.json      what it is, and the size and the hash of all that follows
//	workspace.tar.zst  the workspace
//	root.tar.zst       what was changed of the root, as a layer of an OCI image
package snapshot

import (
	"slices"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// Format is the version of the form. Archives of another one are refused.
const Format = 1

// Scope is how much of a sandbox a snapshot has. The strings are part of the
// API.
type Scope string

// The scopes.
const (
	ScopeWorkspace Scope = "workspace"
	ScopeSandbox   Scope = "sandbox" // that, and what was changed of the root
)

// PartName names a part of an archive.
type PartName string

// The parts, in their order.
const (
	Workspace PartName = "workspace"
	Root      PartName = "root"
)

// Manifest says what an archive is.
type Manifest struct {
	Format      int       `json:"format"`
	ID          string    `json:"id"`
	Owner       string    `json:"owner"`      // who made it
	SessionID   string    `json:"session_id"` // what it was made of
	Scope       Scope     `json:"scope"`
	Image       string    `json:"image"`        // of the session, as its client wrote it
	ImageDigest string    `json:"image_digest"` // what that was; the root part lies on it
	Cwd         string    `json:"cwd"`          // of the session's default shell
	CreatedAt   time.Time `json:"created_at"`
	Key         string    `json:"key,omitempty"` // of the archive where it is kept, if that is not the ID
	Include     []string  `json:"include_paths,omitempty"`
	Exclude     []string  `json:"exclude_paths,omitempty"`
	Parts       []Part    `json:"parts"`
}

// Part is one of the compressed tar files of an archive.
type Part struct {
	Name    PartName `json:"name"`
	Size    int64    `json:"size"`   // in bytes, as it is
	SHA256  string   `json:"sha256"` // of that, in hex
	Entries int64    `json:"entries"`
	Bytes   int64    `json:"bytes"` // of the files in it, holes included
}

// Part returns the part of that name, if the archive has one.
func (m Manifest) Part(name PartName) (Part, bool) {
	i := slices.IndexFunc(m.Parts, func(p Part) bool { return p.Name == name })
	if i < 0 {
		return Part{}, false
	}
	return m.Parts[i], true
}

// Entries counts files, directories and links in all parts.
func (m Manifest) Entries() (n int64) {
	for _, p := range m.Parts {
		n += p.Entries
	}
	return n
}

// Bytes is what the files of all parts have, holes included.
func (m Manifest) Bytes() (n int64) {
	for _, p := range m.Parts {
		n += p.Bytes
	}
	return n
}

func refused(format string, args ...any) error {
	return errdefs.New(errdefs.Unprocessable, "the snapshot is refused: "+format, args...)
}

// check refuses a manifest that no archive of ours has.
func (m Manifest) check() error {
	if m.Format != Format {
		return refused("its format is %d, and %d is the only one that is known", m.Format, Format)
	}
	if m.Scope != ScopeWorkspace && m.Scope != ScopeSandbox {
		return refused("its scope is neither %s nor %s", ScopeWorkspace, ScopeSandbox)
	}
	order := []PartName{Workspace, Root}
	if m.Scope == ScopeWorkspace {
		order = order[:1]
	}
	if len(m.Parts) == 0 {
		return refused("it has no part")
	}
	for _, p := range m.Parts {
		i := slices.Index(order, p.Name)
		if i < 0 {
			return refused("it has a part %.32q that its scope has not, or twice", p.Name)
		}
		order = order[i+1:]
		if p.Size < 0 || p.Entries < 0 || p.Bytes < 0 || len(p.SHA256) != 64 {
			return refused("what it says of its part %s is not possible", p.Name)
		}
	}
	return nil
}
