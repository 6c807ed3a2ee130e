package images

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images/chroot"
	"github.com/sandkasten/sandkasten/internal/images/extract"
)

// Step is one layer of a recipe above its packages: one of its fields is set.
type Step struct {
	Pip  []string `json:"pip,omitempty"`
	NPM  []string `json:"npm,omitempty"`
	Copy *Copy    `json:"copy,omitempty"`
	Run  string   `json:"run,omitempty"`
}

// Copy brings a file, or a directory with all that is in it, into an image.
type Copy struct {
	From string `yaml:"from" json:"from"` // below the recipe's directory
	To   string `yaml:"to" json:"to"`     // absolute
	Mode string `yaml:"mode" json:"mode"` // octal, of files; theirs without it
}

// File is a file that a recipe may copy.
type File struct {
	Path string // slash-separated, below the recipe's directory
	Mode fs.FileMode
	Size int64
	Open func() (io.ReadCloser, error)
}

// cacheTime is how long a step that was made before is taken for one that is the
// same: packages and what is downloaded become old.
const cacheTime = 24 * time.Hour

var (
	wordPat = regexp.MustCompile(`^[A-Za-z0-9@./][!-~]{0,255}$`)
	modePat = regexp.MustCompile(`^[0-7]{3,4}$`)
)

// ownSteps are those that a recipe's own lists ask for.
func (r Recipe) ownSteps() []Step {
	var steps []Step
	if len(r.Pip) > 0 {
		steps = append(steps, Step{Pip: r.Pip})
	}
	if len(r.NPM) > 0 {
		steps = append(steps, Step{NPM: r.NPM})
	}
	for _, c := range r.Copy {
		steps = append(steps, Step{Copy: &c})
	}
	for _, command := range r.Run {
		steps = append(steps, Step{Run: command})
	}
	return steps
}

func (s Step) check() error {
	for name, list := range map[string][]string{"pip": s.Pip, "npm": s.NPM} {
		for _, word := range list {
			if !wordPat.MatchString(word) {
				return errdefs.Invalid(name, "has %.100q, which is not a package: no options, no spaces", word)
			}
		}
	}
	switch c := s.Copy; {
	case c == nil:
	case !fs.ValidPath(c.From):
		return errdefs.Invalid("copy", "has from: %.100q, which is not a path below the recipe's directory", c.From)
	case !path.IsAbs(c.To) || path.Clean(c.To) == "/":
		return errdefs.Invalid("copy", "has to: %.100q, which is not the absolute path of a file or directory", c.To)
	case c.Mode != "" && !modePat.MatchString(c.Mode):
		return errdefs.Invalid("copy", "has mode: %.100q, which is not an octal mode as \"0755\"", c.Mode)
	}
	return nil
}

// title tells people what a step does.
func (s Step) title() string {
	switch {
	case len(s.Pip) > 0:
		return "pip install " + strings.Join(s.Pip, " ")
	case len(s.NPM) > 0:
		return "npm install " + strings.Join(s.NPM, " ")
	case s.Copy != nil:
		return "copy " + s.Copy.From
	}
	first, _, _ := strings.Cut(s.Run, "\n")
	return "run " + first
}

// command is what a step runs; a copy runs nothing.
func (s Step) command() []string {
	switch {
	case len(s.Pip) > 0:
		return append([]string{"/bin/sh", "-c", `exec python3 -m pip install --no-cache-dir "$@"`, "pip"}, s.Pip...)
	case len(s.NPM) > 0:
		return append([]string{"/bin/sh", "-c", `exec npm install --global --no-audit --cache /tmp/npm "$@"`, "npm"}, s.NPM...)
	}
	return []string{"/bin/sh", "-e", "-c", s.Run}
}

// copied are the files of a copy, sorted, with their paths in the image. The error
// is InvalidArgument if there are none.
func (c Copy) copied(files []File) (map[string]File, []string, error) {
	found := map[string]File{}
	for _, f := range files {
		below, ok := strings.CutPrefix(f.Path, c.From+"/")
		switch {
		case f.Path == c.From && strings.HasSuffix(c.To, "/"):
			found[path.Join(c.To, path.Base(f.Path))] = f
		case f.Path == c.From:
			found[path.Clean(c.To)] = f
		case ok || c.From == ".":
			if c.From == "." {
				below = f.Path
			}
			found[path.Join(c.To, below)] = f
		}
	}
	if len(found) == 0 {
		return nil, nil, errdefs.Invalid("copy", "names %.100q, and there is no such file beside the recipe", c.From)
	}
	names := make([]string, 0, len(found))
	for name := range found {
		names = append(names, name)
	}
	slices.Sort(names)
	return found, names, nil
}

// archive is the layer of a copy.
func (c Copy) archive(files []File) ([]byte, error) {
	found, names, err := c.copied(files)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, name := range names {
		if err := found[name].write(w, strings.TrimPrefix(name, "/"), c.Mode); err != nil {
			return nil, err
		}
	}
	err = w.Close()
	return buf.Bytes(), err
}

func (f File) write(w *tar.Writer, name, mode string) (err error) {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: f.Size, Mode: int64(f.Mode.Perm())}
	if mode != "" {
		if h.Mode, err = strconv.ParseInt(mode, 8, 32); err != nil {
			return fmt.Errorf("copy %s: %w", name, err)
		}
	}
	in, err := f.Open()
	if err != nil {
		return fmt.Errorf("copy %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	if err := w.WriteHeader(h); err != nil {
		return fmt.Errorf("copy %s: %w", name, err)
	}
	if _, err := io.CopyN(w, in, f.Size); err != nil {
		return fmt.Errorf("copy %s: %w", name, err)
	}
	return nil
}

// digest is equal for requests that build equal images.
func (req BuildRequest) digest() (string, error) {
	recipe, err := req.Recipe.Digest()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	h.Write([]byte(recipe))
	copies := false
	for _, s := range req.Recipe.Steps {
		if s.Copy == nil {
			continue
		}
		copies = true
		data, err := s.Copy.archive(req.Files)
		if err != nil {
			return "", err
		}
		h.Write(data)
	}
	if !copies {
		return recipe, nil
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// steps makes the layers above the packages, and returns all, top first.
func (t *transaction) steps(ctx context.Context, req BuildRequest, packages Layer) ([]Layer, error) {
	layers := []Layer{packages}
	env := mergeEnv(defaultEnv, req.Recipe.env())
	for i, s := range req.Recipe.Steps {
		var archive []byte
		if s.Copy != nil {
			var err error
			if archive, err = s.Copy.archive(req.Files); err != nil {
				return nil, err
			}
		}
		key := cacheKey("step", layers, s, env, hexSum(archive))
		l, err := t.cached(key, req.NoCache, func() (Layer, error) {
			title := fmt.Sprintf("step %d of %d: %s", i+1, len(req.Recipe.Steps), s.title())
			req.Progress.report(Progress{Phase: title})
			if s.Copy != nil {
				return t.add(ctx, newMeter(bytes.NewReader(archive), title, int64(len(archive)), req.Progress), extract.Layer, layers)
			}
			return t.run(ctx, s, env, layers)
		})
		if err != nil {
			return nil, err
		}
		layers = append([]Layer{l}, layers...)
	}
	return layers, nil
}

// run makes the layer of what a program changes.
func (t *transaction) run(ctx context.Context, s Step, env []string, below []Layer) (Layer, error) {
	t.next++
	var last []string
	c := chroot.Command{
		Base: t.s.path("layers"), Dir: filepath.Join(t.dir, fmt.Sprintf("step-%d", t.next)), Args: s.command(),
		Line: func(line string) {
			if last = append(last, line); len(last) > keptErrorLines {
				last = last[1:]
			}
		},
	}
	for _, l := range topmost(below) {
		c.Layers = append(c.Layers, filepath.Join(hexOf(l.Key), "fs"))
	}
	lent, err := lendClients(c)
	if err != nil {
		return Layer{}, fmt.Errorf("prepare %s: %w", s.title(), err)
	}
	c.Env = mergeEnv(env, lent)
	if err := c.Run(ctx); err != nil {
		if ctx.Err() != nil {
			return Layer{}, ctx.Err()
		}
		return Layer{}, errdefs.Wrap(err, errdefs.Unprocessable, "the recipe's step %q failed: %s:\n%s", s.title(), err, strings.Join(last, "\n"))
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(c.Layer(ctx, w)) }() // ends with the reader
	l, err := t.add(ctx, newMeter(r, "store "+s.title(), 0, nil), extract.Layer, below)
	return l, errors.Join(err, r.Close())
}

// cached returns the layer that was made for the key not long ago, or makes it.
func (t *transaction) cached(key string, anew bool, produce func() (Layer, error)) (Layer, error) {
	file := t.s.path("steps", hexOf(key))
	if info, err := os.Stat(file); err == nil && !anew && time.Since(info.ModTime()) < cacheTime {
		var l Layer
		data, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(data, &l)
		}
		if err == nil {
			_, err = t.s.layer(l.Key)
		}
		if err == nil {
			return l, nil
		} // it was removed since, or the note is damaged
	}
	l, err := produce()
	if err != nil {
		return Layer{}, err
	}
	data, err := json.Marshal(l)
	if err != nil {
		return Layer{}, fmt.Errorf("note a step: %w", err)
	}
	if err := os.MkdirAll(t.s.path("steps"), 0o700); err != nil {
		return Layer{}, fmt.Errorf("note a step: %w", err)
	}
	if err := writeFile(file, data); err != nil {
		return Layer{}, fmt.Errorf("note a step: %w", err)
	}
	return l, nil
}

// sweepSteps forgets the steps that nobody takes any more.
func (s *Store) sweepSteps() error {
	entries, err := os.ReadDir(s.path("steps"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sweep steps: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > cacheTime {
			errs = append(errs, os.Remove(s.path("steps", e.Name())))
		}
	}
	return errors.Join(errs...)
}

func cacheKey(parts ...any) string {
	h := sha256.New()
	enc := json.NewEncoder(h)
	for _, p := range append([]any{builder}, parts...) {
		if err := enc.Encode(p); err != nil {
			panic(fmt.Sprintf("images: a step that is no JSON: %v", err)) // all parts are data
		}
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

func hexSum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
