package sandkasten

import (
	"context"
	"io"
)

// GlobOptions says where files are looked for.
type GlobOptions struct {
	Path   string // the directory; empty is /workspace
	Hidden bool   // also names that begin with a dot
	Limit  int    // 0 is the daemon's default
}

// Found is the files that Glob found.
type Found struct {
	Entries   []Entry `json:"entries"`
	Truncated bool    `json:"truncated"`
}

// Glob finds files by name: *, ?, [a-z], ** and {a,b}.
func (f *Files) Glob(ctx context.Context, pattern string, o *GlobOptions) (Found, error) {
	r := f.search("glob", pattern, value(o))
	var found Found
	err := f.client.call(ctx, r, &found)
	return found, err
}

func (f *Files) search(what, pattern string, o GlobOptions) request {
	r := f.get(what)
	r.set("pattern", pattern)
	r.set("path", o.Path)
	r.setFlag("hidden", o.Hidden)
	r.setNumber("limit", int64(o.Limit))
	return r
}

// GrepOptions says where and how lines are looked for.
type GrepOptions struct {
	Path       string // a directory or file; empty is /workspace
	Literal    bool   // the pattern is text
	IgnoreCase bool
	Include    string // a glob that the names of files must match
	Hidden     bool   // also files whose names begin with a dot
	Before     int    // lines of context
	After      int
	Limit      int // 0 is the daemon's default
}

// Match is one line that matches.
type Match struct {
	Path   string   `json:"path"`
	Line   int      `json:"line"`
	Column int      `json:"column"`
	Text   string   `json:"text"`
	Before []string `json:"before,omitempty"`
	After  []string `json:"after,omitempty"`
}

// Matches is what Grep found.
type Matches struct {
	Matches   []Match `json:"matches"`
	Files     int     `json:"files"`        // that were read
	Binary    int     `json:"binary_files"` // of these, passed over since they are no text
	Truncated bool    `json:"truncated"`
}

// Grep finds lines by their text, a regular expression as those of Go.
func (f *Files) Grep(ctx context.Context, pattern string, o *GrepOptions) (Matches, error) {
	options := value(o)
	r := f.search("grep", pattern, GlobOptions{options.Path, options.Hidden, options.Limit})
	r.setFlag("literal", options.Literal)
	r.setFlag("ignore_case", options.IgnoreCase)
	r.set("include", options.Include)
	r.setNumber("before", int64(options.Before))
	r.setNumber("after", int64(options.After))
	var found Matches
	err := f.client.call(ctx, r, &found)
	return found, err
}

// ArchiveFormat is how a directory is packed.
type ArchiveFormat string

// The formats. An empty one is the daemon's default.
const (
	Tar    ArchiveFormat = "tar"
	TarGz  ArchiveFormat = "tar.gz"
	TarZst ArchiveFormat = "tar.zst"
	Zip    ArchiveFormat = "zip"
)

// DownloadArchive packs a directory. The caller closes the archive. A read fails
// where the connection breaks: an archive is made anew each time.
func (f *Files) DownloadArchive(ctx context.Context, path string, format ArchiveFormat) (io.ReadCloser, error) {
	r := f.get("archive")
	r.set("path", path)
	r.set("format", string(format))
	resp, err := f.client.open(ctx, r)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// ArchiveOptions describes an archive.
type ArchiveOptions struct {
	Format ArchiveFormat
	Size   int64 // if the archive is neither a buffer nor can seek
}

// Unpacked is what an archive had in it.
type Unpacked struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

// UploadArchive unpacks an archive into a directory, which is made if it is missing.
func (f *Files) UploadArchive(ctx context.Context, path string, archive io.Reader, o *ArchiveOptions) (Unpacked, error) {
	options := value(o)
	r, err := f.upload("archive", path, archive, options.Size)
	if err != nil {
		return Unpacked{}, err
	}
	r.set("format", string(options.Format))
	var done Unpacked
	err = f.client.call(ctx, r, &done)
	return done, err
}
