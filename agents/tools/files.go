package tools

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sandkasten/sandkasten/sdk/go"
)

const (
	readBytes   = 256 << 10 // of sandbox_fs_read that asks for no other number
	maxRead     = 4 << 20
	listEntries = 500
	maxMatches  = 100
)

// at is the session and the path of a call for a file.
func (c *call) at(ctx context.Context, name string) (*sandkasten.Session, string, error) {
	place, err := workspacePath(name, c.text(name))
	if err != nil {
		return nil, "", err
	}
	session, err := c.session(ctx)
	return session, place, err
}

func writeTool(ctx context.Context, c *call) (any, error) {
	content := []byte(c.text("contents"))
	if encoded := c.text("contents_b64"); encoded != "" {
		if len(content) > 0 {
			return nil, wrongInput("send contents or contents_b64, not both")
		}
		var err error
		if content, err = decodeBase64("contents_b64", encoded); err != nil {
			return nil, err
		}
	}
	mode, err := strconv.ParseUint(orElse(c.text("mode"), "0644"), 8, 32)
	if err != nil || mode > 0o777 {
		return nil, wrongInput(`mode must be octal permissions, such as "0644" or "0755"`)
	}
	place, err := workspacePath("path", c.text("path"))
	if err != nil {
		return nil, err
	}
	if place == workspace {
		return nil, wrongInput("path must name a file, as src/main.py")
	}
	session, err := c.session(ctx)
	if err != nil {
		return nil, err
	}
	if err := keepsBytes(ctx, session, place, c.text("contents")); err != nil {
		return nil, err
	}
	options := sandkasten.WriteOptions{Mode: fs.FileMode(mode), Create: !c.flag("overwrite", true)}
	if err := session.Write(ctx, place, bytes.NewReader(content), &options); err != nil {
		return nil, err
	}
	return struct {
		OK        bool   `json:"ok"`
		Path      string `json:"path"`
		SizeBytes int    `json:"size_bytes"`
	}{true, place, len(content)}, nil
}

type contents struct {
	Contents    *string `json:"contents,omitempty"`
	ContentsB64 *string `json:"contents_b64,omitempty"`
	Lossy       bool    `json:"lossy,omitempty"`
	Truncated   bool    `json:"truncated"`
	SizeBytes   int64   `json:"size_bytes"`
	Hint        string  `json:"hint,omitempty"`
}

func readTool(ctx context.Context, c *call) (any, error) {
	session, place, err := c.at(ctx, "path")
	if err != nil {
		return nil, err
	}
	return readFile(ctx, session, place, c.number("offset", 0), c.number("max_bytes", readBytes))
}

// readFile returns a part of a file, as text if it is some.
func readFile(ctx context.Context, session *sandkasten.Session, place string, offset, most int64) (contents, error) {
	// Some bytes more tell whether a character is cut at the end.
	reader, err := session.Read(ctx, place, &sandkasten.ReadOptions{Offset: offset, MaxBytes: most + utf8.UTFMax})
	if err != nil {
		return contents{}, err
	}
	data, err := io.ReadAll(reader)
	if err = errors.Join(err, reader.Close()); err != nil {
		return contents{}, err
	}
	a := contents{SizeBytes: max(reader.Size, 0)}
	if reader.Size < 0 { // nothing is at the offset
		entry, err := session.Stat(ctx, place, &sandkasten.StatOptions{Follow: true})
		if err != nil {
			return contents{}, err
		}
		a.SizeBytes = entry.Size
	}
	part := data
	if int64(len(data)) > most {
		part = data[:most]
		if whole := wholeRunes(part); len(whole) > 0 && utf8.Valid(whole) {
			part = whole
		}
	}
	next := offset + int64(len(part))
	if a.Truncated = next < a.SizeBytes; a.Truncated {
		a.Hint = fmt.Sprintf("send offset %d to read on", next)
	}
	if isText(part) {
		text, lossy := readable(part)
		a.Contents, a.Lossy = &text, lossy
		if lossy {
			a.Hint = strings.TrimPrefix(a.Hint+"; U+FFFD stands for bytes that are no text: change the file with sandbox_exec", "; ")
		}
		return a, nil
	}
	encoded := base64.StdEncoding.EncodeToString(part)
	a.ContentsB64 = &encoded
	return a, nil
}

// isText reports whether bytes are read as text: without NUL, and at least nine of ten
// characters are some.
func isText(data []byte) bool {
	odd, all := 0, 0
	for rest := data; len(rest) > 0; all++ {
		r, size := utf8.DecodeRune(rest)
		if r == 0 {
			return false
		}
		if r == utf8.RuneError && size == 1 {
			odd++
		}
		rest = rest[size:]
	}
	return odd*10 <= all
}

// keepsBytes refuses to write U+FFFD into a file that has bytes for which a read has shown
// it: they would be lost.
func keepsBytes(ctx context.Context, session *sandkasten.Session, place, text string) error {
	if !strings.ContainsRune(text, utf8.RuneError) {
		return nil
	}
	reader, err := session.Read(ctx, place, &sandkasten.ReadOptions{MaxBytes: maxRead})
	if err != nil {
		return nil //nolint:nilerr // there is nothing to lose, or the write will say what is wrong
	}
	data, err := io.ReadAll(reader)
	if err = errors.Join(err, reader.Close()); err != nil {
		return err
	}
	if utf8.Valid(wholeRunes(data)) {
		return nil
	}
	return wrongInput("%s has bytes that are no text, and U+FFFD would replace them: write contents_b64, or change the file with sandbox_exec, as with sed or python3", relative(place))
}

// wholeRunes leaves out a character that is cut at the end.
func wholeRunes(data []byte) []byte {
	for i := len(data) - 1; i >= 0 && i >= len(data)-utf8.UTFMax; i-- {
		if utf8.RuneStart(data[i]) {
			if !utf8.FullRune(data[i:]) {
				return data[:i]
			}
			break
		}
	}
	return data
}

type entry struct {
	Path      string `json:"path"`
	Type      string `json:"type"`
	Size      int64  `json:"size"`
	Mode      string `json:"mode"`
	MtimeUnix int64  `json:"mtime_unix"`
}

type listAnswer struct {
	Entries   []entry `json:"entries"`
	Truncated bool    `json:"truncated,omitempty"`
	Hint      string  `json:"hint,omitempty"`

	pathBytes int
}

// add adds an entry, unless the paths are more than two outputs may be: names can be
// long, and whoever made the files has chosen them.
func (a *listAnswer) add(e entry, most int) bool {
	if a.pathBytes += len(e.Path); a.pathBytes > 2*most {
		return false
	}
	a.Entries = append(a.Entries, e)
	return true
}

func newEntry(dir string, e sandkasten.Entry) entry {
	return entry{relative(path.Join(dir, e.Name)), e.Type, e.Size, e.Mode, e.ModifiedAt.Unix()}
}

func listTool(ctx context.Context, c *call) (any, error) {
	session, place, err := c.at(ctx, "path")
	if err != nil {
		return nil, err
	}
	options := sandkasten.ListOptions{}
	if c.flag("recursive", false) {
		options.Depth = -1
	}
	a := listAnswer{Entries: []entry{}}
	for e, err := range session.List(ctx, place, &options) {
		if err != nil {
			return nil, err
		}
		if len(a.Entries) == listEntries || !a.add(newEntry(place, e), c.set.opts.MaxBytes) {
			a.Truncated, a.Hint = true, "there are more; list a directory below, or use sandbox_fs_glob"
			break
		}
	}
	return a, nil
}

func deleteTool(ctx context.Context, c *call) (any, error) {
	place, err := workspacePath("path", c.text("path"))
	if err != nil {
		return nil, err
	}
	if place == workspace {
		return nil, wrongInput("the workspace itself cannot be deleted; delete what is in it, or end the sandbox with sandbox_close")
	}
	session, err := c.session(ctx)
	if err != nil {
		return nil, err
	}
	recursive := c.flag("recursive", false)
	found, err := session.Stat(ctx, place, nil)
	switch {
	case hasReason(err, sandkasten.ReasonNoSuchFile):
	case err != nil:
		return nil, err
	case found.IsDir() && !recursive:
		return nil, wrongInput("%s is a directory: send recursive true to delete it with all that is in it", relative(place))
	default:
		err = session.Remove(ctx, place, &sandkasten.RemoveOptions{Recursive: recursive})
		if err != nil && !hasReason(err, sandkasten.ReasonNoSuchFile) {
			return nil, err
		}
	}
	return struct {
		OK      bool   `json:"ok"`
		Deleted string `json:"deleted"`
	}{true, place}, nil
}

func hasReason(err error, reason sandkasten.Reason) bool {
	var refused *sandkasten.APIError
	return errors.As(err, &refused) && refused.Reason == reason
}

func editTool(ctx context.Context, c *call) (any, error) {
	if c.text("old") == "" {
		return nil, wrongInput("old must not be empty: send the exact text to replace, or write the file with sandbox_fs_write")
	}
	session, place, err := c.at(ctx, "path")
	if err != nil {
		return nil, err
	}
	if err := keepsBytes(ctx, session, place, c.text("new")); err != nil {
		return nil, err
	}
	done, err := session.Edit(ctx, place, c.text("old"), c.text("new"), &sandkasten.EditOptions{Count: int(c.number("count", 1))})
	if err != nil {
		return nil, err
	}
	diff, cut := shorten(done.Diff, c.set.opts.MaxBytes/2, "sandbox_fs_read shows the file")
	return struct {
		OK        bool   `json:"ok"`
		Replaced  int    `json:"replaced"`
		Diff      string `json:"diff"`
		Truncated bool   `json:"truncated,omitempty"`
	}{true, done.Replaced, diff, cut || done.DiffTruncated}, nil
}

type match struct {
	Path   string   `json:"path"`
	Line   int      `json:"line"`
	Text   string   `json:"text"`
	Before []string `json:"before,omitempty"`
	After  []string `json:"after,omitempty"`
}

// size is about what a model reads of a match.
func (m match) size() int {
	size := len(m.Path) + len(m.Text)
	for _, lines := range [][]string{m.Before, m.After} {
		for _, line := range lines {
			size += len(line)
		}
	}
	return size
}

func grepTool(ctx context.Context, c *call) (any, error) {
	session, place, err := c.at(ctx, "path")
	if err != nil {
		return nil, err
	}
	lines := int(c.number("context", 0))
	found, err := session.Grep(ctx, c.text("pattern"), &sandkasten.GrepOptions{
		Path: place, Literal: c.flag("literal", false), IgnoreCase: c.flag("ignore_case", false), Include: c.text("include"),
		Before: lines, After: lines, Limit: int(c.number("limit", maxMatches)),
	})
	if err != nil {
		return nil, err
	}
	answer := struct {
		Matches   []match `json:"matches"`
		Binary    int     `json:"binary_files_skipped,omitempty"`
		Truncated bool    `json:"truncated,omitempty"`
		Hint      string  `json:"hint,omitempty"`
	}{Matches: []match{}, Binary: found.Binary, Truncated: found.Truncated}
	total := 0
	for _, m := range found.Matches {
		text, _ := shorten(m.Text, 500, "a long line")
		one := match{shownPath(place, m.Path), m.Line, text, m.Before, m.After}
		if total += one.size(); total > c.set.opts.MaxBytes {
			answer.Truncated = true
			if len(answer.Matches) > 0 {
				break
			}
			one.Before, one.After = nil, nil // where the first one is tells how to go on
		}
		answer.Matches = append(answer.Matches, one)
	}
	if answer.Truncated {
		answer.Hint = "there are more; send a narrower pattern, path or include, or less context"
	}
	return answer, nil
}

// shownPath is a path of the daemon's as calls take it.
func shownPath(dir, name string) string {
	if path.IsAbs(name) {
		return relative(name)
	}
	return relative(path.Join(dir, name))
}

// globPattern is a pattern below a directory. Those of the workspace may be written as
// its paths may: /workspace/*.py, workspace/*.py and *.py are one pattern.
func globPattern(dir, pattern string) (string, error) {
	if slices.Contains(strings.Split(pattern, "/"), "..") {
		return "", wrongInput("pattern must not contain ..: write it from path, as src/**/*.py")
	}
	if dir == workspace {
		pattern = strings.TrimPrefix(strings.TrimPrefix(pattern, workspace+"/"), "workspace/")
	}
	return pattern, nil
}

func globTool(ctx context.Context, c *call) (any, error) {
	session, place, err := c.at(ctx, "path")
	if err != nil {
		return nil, err
	}
	pattern, err := globPattern(place, c.text("pattern"))
	if err != nil {
		return nil, err
	}
	found, err := session.Glob(ctx, pattern, &sandkasten.GlobOptions{Path: place, Limit: int(c.number("limit", listEntries))})
	if err != nil {
		return nil, err
	}
	a := listAnswer{Entries: []entry{}, Truncated: found.Truncated}
	for _, e := range found.Entries {
		if !a.add(newEntry(place, e), c.set.opts.MaxBytes) {
			a.Truncated = true
			break
		}
	}
	if a.Truncated {
		a.Hint = "there are more; send a narrower pattern or path"
	}
	return a, nil
}

func stageTool(ctx context.Context, c *call) (any, error) {
	session, place, err := c.at(ctx, "destination")
	if err != nil {
		return nil, err
	}
	key := c.text("file_key")
	content, size, err := c.set.opts.Files.Open(ctx, key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, wrongInput("there is no file %s in the store; ask the user for the file_key", key)
	}
	if err != nil {
		return nil, err
	}
	defer content.Close() // it is only read
	if err := session.Write(ctx, place, content, &sandkasten.WriteOptions{Size: size, Mode: 0o644}); err != nil {
		return nil, err
	}
	return struct {
		OK        bool   `json:"ok"`
		Path      string `json:"path"`
		SizeBytes int64  `json:"size_bytes"`
	}{true, place, size}, nil
}

func publishTool(ctx context.Context, c *call) (any, error) {
	session, place, err := c.at(ctx, "source")
	if err != nil {
		return nil, err
	}
	reader, err := session.Read(ctx, place, nil)
	if err != nil {
		return nil, err
	}
	defer reader.Close() //nolint:errcheck // it is only read
	key, size, err := c.set.opts.Files.Put(ctx, c.text("file_key"), path.Base(place), reader)
	if err != nil {
		return nil, err
	}
	return struct {
		OK        bool   `json:"ok"`
		FileKey   string `json:"file_key"`
		SizeBytes int64  `json:"size_bytes"`
	}{true, key, size}, nil
}

func orElse(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}

// ErrTooLarge is a file that is larger than it may be.
var ErrTooLarge = errors.New("the file is too large: read it in parts with sandbox_fs_read")

// File returns a file of a sandbox of the set's scope, if it has at most so many
// bytes.
func (s *Set) File(ctx context.Context, sandboxID, name string, most int64) ([]byte, error) {
	c := &call{set: s, scope: s.opts.Scope, args: map[string]any{"sandbox_id": sandboxID, "path": name}}
	session, place, err := c.at(ctx, "path")
	if err != nil {
		return nil, err
	}
	reader, err := session.Read(ctx, place, nil)
	if err != nil {
		return nil, err
	}
	defer reader.Close() //nolint:errcheck // it is only read
	data, err := io.ReadAll(io.LimitReader(reader, most+1))
	if err == nil && int64(len(data)) > most {
		return nil, ErrTooLarge
	}
	return data, err
}

// Follow tells of changes of a file of a sandbox of the set's scope: once with begin
// when it watches, and then after each change. The file need not be there yet, but its
// directory must. It returns when ctx is done, or with why it cannot go on.
func (s *Set) Follow(ctx context.Context, sandboxID, name string, tell func(begin bool)) error {
	c := &call{set: s, scope: s.opts.Scope, args: map[string]any{"sandbox_id": sandboxID, "path": name}}
	session, place, err := c.at(ctx, "path")
	if err != nil {
		return err
	}
	dir, file := path.Split(place)
	for change, err := range session.Watch(ctx, path.Clean(dir), nil) {
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case change.Op == "ready":
			tell(true)
		case change.Path == file, change.From == file, change.Op == "overflow":
			tell(false)
		}
	}
	return nil
}
