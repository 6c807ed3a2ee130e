package protocol

// Messages about files. Relative paths start at the workspace. A path that
// leads out of it, also by a symlink, is refused unless AllowOutside is set. With a
// User, as in Start, the rights of that user of the sandbox hold, and what is made
// is that user's.

// Read asks for a file, at most MaxBytes from Offset (0 is to the end).
type Read struct {
	Path     string `json:"path"`
	Offset   int64  `json:"offset"`
	MaxBytes int64  `json:"max_bytes"`
	Tag      bool   `json:"tag,omitempty"` // tell the tag

	AllowOutside bool   `json:"allow_outside,omitempty"`
	User         string `json:"user,omitempty"`
}

// FileInfo describes a file; as an answer to Read its frame carries the bytes.
type FileInfo struct {
	Name      string `json:"name"` // the path asked for; in a listing, relative to the directory
	Type      string `json:"type"` // file, dir, symlink, fifo, socket, device
	Size      int64  `json:"size"`
	Mode      uint32 `json:"mode"`
	UID       uint32 `json:"uid"`
	GID       uint32 `json:"gid"`
	ModTimeMS int64  `json:"mod_time_ms"`
	Target    string `json:"target,omitempty"` // of a symlink
	Tag       string `json:"tag,omitempty"`    // of a regular file, where it was asked for: an entity tag of HTTP
}

// Write replaces or makes a file, atomically, with the payload. Missing
// parent directories are made. Mode 0 is 0644, or the file's present mode.
type Write struct {
	Path   string `json:"path"`
	Mode   uint32 `json:"mode"`
	Create bool   `json:"create,omitempty"` // refuse to replace: already_exists
	Append bool   `json:"append,omitempty"` // add to the end instead, which is not atomic

	ModTimeNS *int64 `json:"mtime_ns,omitempty"` // the file's time, in nanoseconds since 1970; not with Append

	// IfMatch are tags, one of which the file must have; "*" is that of every file.
	// If it has none of them, or is missing: precondition_failed.
	IfMatch []string `json:"if_match,omitempty"`
	Tag     bool     `json:"tag,omitempty"` // answer with info, which has the tag of what was written

	AllowOutside bool   `json:"allow_outside,omitempty"`
	User         string `json:"user,omitempty"`
}

// List asks for a directory's entries, at most Max, by name. With a Depth over
// 1 those of directories below follow their directory's; links are not
// followed. After, if set, is Next of the answer before: it goes on behind that.
type List struct {
	Path  string `json:"path"`
	Max   int    `json:"max"`
	Depth int    `json:"depth,omitempty"` // 0 is 1; -1 is all
	After []byte `json:"after,omitempty"`

	AllowOutside bool   `json:"allow_outside,omitempty"`
	User         string `json:"user,omitempty"`
}

// Entries answers List and Glob, in order.
type Entries struct {
	Entries   []FileInfo `json:"entries"`
	Truncated bool       `json:"truncated"`      // there are more
	Next      []byte     `json:"next,omitempty"` // of a List: for its After, where there are more; names as they are, also those that are not UTF-8
}

// Stat asks for one file's FileInfo. A link is described, not followed, unless
// Follow is set.
type Stat struct {
	Path   string `json:"path"`
	Follow bool   `json:"follow,omitempty"`
	Tag    bool   `json:"tag,omitempty"` // tell the tag

	AllowOutside bool   `json:"allow_outside,omitempty"`
	User         string `json:"user,omitempty"`
}

// Mkdir makes a directory. With Parents those above it are made as well, and
// it may exist. Mode 0 is 0755.
type Mkdir struct {
	Path    string `json:"path"`
	Mode    uint32 `json:"mode"`
	Parents bool   `json:"parents,omitempty"`

	AllowOutside bool   `json:"allow_outside,omitempty"`
	User         string `json:"user,omitempty"`
}

// Move renames a file or directory, in one step. What is at To is only
// replaced with Overwrite, and never a directory that has entries.
type Move struct {
	From      string `json:"from"`
	To        string `json:"to"`
	Overwrite bool   `json:"overwrite,omitempty"`

	AllowOutside bool   `json:"allow_outside,omitempty"`
	User         string `json:"user,omitempty"`
}

// Copy copies a file, or with Recursive a directory: files, directories and
// links as links, with their modes; other kinds are refused.
type Copy struct {
	From      string `json:"from"`
	To        string `json:"to"`
	Recursive bool   `json:"recursive,omitempty"`
	Overwrite bool   `json:"overwrite,omitempty"`

	AllowOutside bool   `json:"allow_outside,omitempty"`
	User         string `json:"user,omitempty"`
}

// Remove removes a file, a link, an empty directory, or with Recursive a
// directory with all that is in it.
type Remove struct {
	Path      string `json:"path"`
	Recursive bool   `json:"recursive,omitempty"`

	AllowOutside bool   `json:"allow_outside,omitempty"`
	User         string `json:"user,omitempty"`
}

// Chmod sets the mode of a file or directory; links are followed.
type Chmod struct {
	Path      string `json:"path"`
	Mode      uint32 `json:"mode"`
	Recursive bool   `json:"recursive,omitempty"` // files and directories below; links are left alone

	AllowOutside bool   `json:"allow_outside,omitempty"`
	User         string `json:"user,omitempty"`
}

// Glob asks for the files below Path that match Pattern: ** is any number of
// directories, * and ? and [a-z] stay within one name, {a,b} is either. A
// pattern without a slash is matched against names at every depth.
type Glob struct {
	Path    string `json:"path"`
	Pattern string `json:"pattern"`
	Hidden  bool   `json:"hidden,omitempty"` // also names that begin with a dot, where the pattern does not say so
	Max     int    `json:"max"`

	AllowOutside bool   `json:"allow_outside,omitempty"`
	User         string `json:"user,omitempty"`
}

// Grep asks for the lines that match Pattern, in RE2's syntax, in the regular
// files below Path, or in that file. Binary files are skipped.
type Grep struct {
	Path       string `json:"path"`
	Pattern    string `json:"pattern"`
	Literal    bool   `json:"literal,omitempty"` // Pattern is text
	IgnoreCase bool   `json:"ignore_case,omitempty"`
	Include    string `json:"include,omitempty"` // as in Glob: only these files
	Hidden     bool   `json:"hidden,omitempty"`
	Before     int    `json:"before,omitempty"` // lines of context
	After      int    `json:"after,omitempty"`
	Max        int    `json:"max"` // matches

	AllowOutside bool   `json:"allow_outside,omitempty"`
	User         string `json:"user,omitempty"`
}

// Match is one line that matches, with the lines around it.
type Match struct {
	Path   string   `json:"path"`   // relative to Grep.Path; "" if that is the file
	Line   int      `json:"line"`   // from 1
	Column int      `json:"column"` // of the first match, in bytes, from 1
	Text   string   `json:"text"`   // 500 bytes of a longer line, with the match, and an ellipsis where it is cut
	Before []string `json:"before,omitempty"`
	After  []string `json:"after,omitempty"`
}

// Matches answers Grep, by path and line.
type Matches struct {
	Matches   []Match `json:"matches"`
	Files     int     `json:"files"`                  // that were read
	Binary    int     `json:"binary_files,omitempty"` // of these, passed over since they are no text
	Truncated bool    `json:"truncated"`
}

// Edit replaces text in a file: the first OldBytes of the payload by the rest.
// The old text must occur Count times, or any number of times but none if
// Count is 0; else nothing changes. The file is written as by Write.
type Edit struct {
	Path     string `json:"path"`
	OldBytes int64  `json:"old_bytes"`
	Count    int    `json:"count"`

	AllowOutside bool   `json:"allow_outside,omitempty"`
	User         string `json:"user,omitempty"`
}

// Edited answers Edit. Its payload is the change as a unified diff.
type Edited struct {
	Replaced      int  `json:"replaced"`
	DiffTruncated bool `json:"diff_truncated,omitempty"`
}

// Watch asks to be told what changes in a directory.
type Watch struct {
	Path      string `json:"path"`
	Recursive bool   `json:"recursive,omitempty"`

	AllowOutside bool   `json:"allow_outside,omitempty"`
	User         string `json:"user,omitempty"`
}

// Change is one change below a watched directory. The first one of a Watch is
// "ready": all later changes are told.
type Change struct {
	Op   string `json:"op"`             // ready, create, write, remove, rename, chmod, or overflow: some were lost
	Path string `json:"path"`           // relative to the directory; of a rename, the new name
	From string `json:"from,omitempty"` // of a rename
	Type string `json:"type,omitempty"` // as in FileInfo, where it is known
}

// Pack asks for a directory, or a file, as an archive.
type Pack struct {
	Path   string `json:"path"`
	Format string `json:"format"` // tar, tar.gz, tar.zst, zip

	AllowOutside bool   `json:"allow_outside,omitempty"`
	User         string `json:"user,omitempty"`

	Snapshot Snapshot `json:"snapshot,omitempty"` // the runner itself answers, while programs may stand still
	Include  []string `json:"include,omitempty"`  // paths from the directory: only these, and what is below them
	Exclude  []string `json:"exclude,omitempty"`  // and not these
}

// Snapshot says that an archive is to bring files back as they were, owners
// included.
type Snapshot string

// The kinds. The zero value is an archive of and for anybody.
const (
	SnapshotTree Snapshot = "tree" // a directory
	// SnapshotLayer is what has changed of the root: the tar is a layer of an
	// OCI image. Path is not looked at when it is packed.
	SnapshotLayer Snapshot = "layer"
)

// Unpack extracts the payload into a directory, which is made if it is missing.
// Entries that lead out of it are refused; what is there already is replaced.
type Unpack struct {
	Path   string `json:"path"`
	Format string `json:"format"` // as in Pack

	AllowOutside bool   `json:"allow_outside,omitempty"`
	User         string `json:"user,omitempty"`

	Snapshot Snapshot `json:"snapshot,omitempty"`
}

// Unpacked answers Unpack.
type Unpacked struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}
