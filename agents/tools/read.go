package tools

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/sandkasten/sandkasten/sdk/go"
)

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
			a.Hint = strings.TrimPrefix(a.Hint+"; U+FFFD stands for bytes that are no text: send texts without it to sandbox_fs_edit, or change the file with sandbox_exec", "; ")
		}
		return a, nil
	}
	encoded := base64.StdEncoding.EncodeToString(part)
	a.ContentsB64 = &encoded
	return a, nil
}

// isText reports whether bytes are read as text: without NUL, and more than nine of ten
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
	return odd == 0 || odd*10 < all
}

// keepsBytes refuses to use U+FFFD of a file that has bytes for which a read has shown it:
// they would be lost, or are not found. How says what to do instead.
func keepsBytes(ctx context.Context, session *sandkasten.Session, place, text, how string) error {
	if !strings.ContainsRune(text, utf8.RuneError) {
		return nil
	}
	reader, err := session.Read(ctx, place, nil)
	if err != nil {
		return nil //nolint:nilerr // there is nothing to lose, or the write will say what is wrong
	}
	whole, err := isUTF8(reader)
	if err = errors.Join(err, reader.Close()); err != nil {
		return err
	}
	if whole {
		return nil
	}
	return wrongInput("%s has bytes that are no text, which a read shows as U+FFFD: %s", relative(place), how)
}

// isUTF8 reports whether all that is read is.
func isUTF8(r io.Reader) (bool, error) {
	buffer, kept := make([]byte, 64<<10), 0
	for {
		n, err := r.Read(buffer[kept:])
		part := buffer[:kept+n]
		if err == nil {
			part = wholeRunes(part)
		}
		if !utf8.Valid(part) {
			return false, nil
		}
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		kept = copy(buffer, buffer[len(part):kept+n])
	}
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
