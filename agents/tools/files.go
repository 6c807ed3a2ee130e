package tools

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path"
	"strconv"

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
	if err != nil || mode == 0 || mode > 0o777 {
		return nil, wrongInput(`mode must be octal permissions, such as "0644" or "0755"; for others use sandbox_exec with chmod`)
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
	if err := keepsBytes(ctx, session, place, c.text("contents"), "send contents_b64, or change it with sandbox_exec, as with sed or python3"); err != nil {
		return nil, err
	}
	options := sandkasten.WriteOptions{Mode: fs.FileMode(mode), Create: !c.flag("overwrite", true)}
	if err := session.Write(ctx, place, bytes.NewReader(content), &options); err != nil {
		return nil, err
	}
	return fileAnswer{true, place, int64(len(content))}, nil
}

// fileAnswer is about a file that was written.
type fileAnswer struct {
	OK        bool   `json:"ok"`
	Path      string `json:"path"`
	SizeBytes int64  `json:"size_bytes"`
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
		return nothingDeleted(place), nil
	case err != nil:
		return nil, err
	case found.IsDir() && !recursive:
		return nil, wrongInput("%s is a directory: send recursive true to delete it with all that is in it", relative(place))
	default:
		err = session.Remove(ctx, place, &sandkasten.RemoveOptions{Recursive: recursive})
		if hasReason(err, sandkasten.ReasonNoSuchFile) {
			return nothingDeleted(place), nil
		}
		if err != nil {
			return nil, err
		}
	}
	return deleteAnswer{OK: true, Deleted: place}, nil
}

type deleteAnswer struct {
	OK      bool   `json:"ok"`
	Deleted string `json:"deleted"`
	Hint    string `json:"hint,omitempty"`
}

// nothingDeleted is the answer where nothing was at a path. It is no error: the path is as
// it was to be.
func nothingDeleted(place string) deleteAnswer {
	return deleteAnswer{Hint: "nothing is deleted: there is no " + relative(place) + "; see what is there with sandbox_fs_list"}
}

func editTool(ctx context.Context, c *call) (any, error) {
	if c.text("old") == "" {
		return nil, wrongInput("old must not be empty: send the exact text to replace, or write the file with sandbox_fs_write")
	}
	session, place, err := c.at(ctx, "path")
	if err != nil {
		return nil, err
	}
	if err := keepsBytes(ctx, session, place, c.text("old")+c.text("new"), "send old and new without it, change it with sandbox_exec, as with sed or python3, or write contents_b64"); err != nil {
		return nil, err
	}
	done, err := session.Edit(ctx, place, c.text("old"), c.text("new"), &sandkasten.EditOptions{Count: int(c.number("count", 1))})
	if err != nil {
		return nil, err
	}
	diff, cut := shorten(done.Diff, c.set.opts.MaxBytes/2, "sandbox_fs_read shows the file")
	return editAnswer{true, done.Replaced, diff, cut || done.DiffTruncated}, nil
}

type editAnswer struct {
	OK        bool   `json:"ok"`
	Replaced  int    `json:"replaced"`
	Diff      string `json:"diff"`
	Truncated bool   `json:"truncated,omitempty"`
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
	return fileAnswer{true, place, size}, nil
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
	return publishAnswer{true, key, size}, nil
}

type publishAnswer struct {
	OK        bool   `json:"ok"`
	FileKey   string `json:"file_key"`
	SizeBytes int64  `json:"size_bytes"`
}
