package images

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/durable"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images/extract"
)

// ImportRequest is a root filesystem to store.
type ImportRequest struct {
	Name     string
	Tar      io.Reader // plain, gzip or zstd; read to its end unless refused
	Size     int64     // of Tar in bytes, for Progress; 0 if unknown
	Source   string    // where it came from, for people
	Progress ProgressFunc

	// What an archive does not say, where somebody else does.
	Env        []string // NAME=value
	WorkingDir string
	User       string
}

// Import stores the archive of a whole root filesystem and gives it the name,
// taking the name from an older image that had it. It either stores all or,
// on error, nothing. Importing the same bytes again gives the same image.
//
// The error is Unprocessable for an archive that is damaged, hostile or not a
// root filesystem that can be a sandbox, TooLarge over a limit,
// InsufficientSpace when the disk is full.
func (s *Store) Import(ctx context.Context, req ImportRequest) (Image, error) {
	name, err := parseName(req.Name)
	if err != nil {
		return Image{}, err
	}
	return s.transact(func(t *transaction) (Image, error) { return t.importTar(ctx, name, req) })
}

func (t *transaction) importTar(ctx context.Context, name string, req ImportRequest) (Image, error) {
	l, err := t.add(ctx, newMeter(req.Tar, "unpack", req.Size, req.Progress), extract.Root, nil)
	if err != nil {
		return Image{}, err
	}
	return t.commit(ctx, name, config{
		layers: []Layer{l}, env: req.Env, workingDir: req.WorkingDir, user: req.User,
		source: req.Source,
	})
}

// config is what an image's origin says of it.
type config struct {
	layers     []Layer // top first
	env        []string
	workingDir string
	user       string
	source     string
	recipe     string
}

// transaction is one import under way. Until commit nothing of it is an image;
// layers that it stored stay for the next try, and are swept in time.
type transaction struct {
	s    *Store
	use  lock
	dir  string // staging
	next int
}

// transact calls do with a transaction, which ends with it.
func (s *Store) transact(do func(*transaction) (Image, error)) (Image, error) {
	t, err := s.begin()
	if err != nil {
		return Image{}, err
	}
	img, err := do(t)
	return img, errors.Join(err, t.end())
}

// begin starts a transaction. The caller ends it.
func (s *Store) begin() (*transaction, error) {
	use, err := s.acquire(useLock, unix.LOCK_SH)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(s.path("staging"), "import-")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("stage image: %w", err), use.release())
	}
	return &transaction{s: s, use: use, dir: dir}, nil
}

// end frees the staging directory. After a commit the image stays.
func (t *transaction) end() error {
	return errors.Join(os.RemoveAll(t.dir), t.use.release())
}

// add stores an archive that no digest is known of as a layer.
func (t *transaction) add(ctx context.Context, archive *meter, kind extract.Kind, below []Layer) (Layer, error) {
	unpacked, err := t.unpack(ctx, archive, kind, below)
	if err != nil {
		return Layer{}, err
	}
	archive.report.report(Progress{Phase: "store"})
	return t.keep(ctx, unpacked)
}

// staged is an unpacked layer that is not in the store yet.
type staged struct {
	dir  string
	info layerInfo
}

// unpack makes an archive a tree in the staging directory.
func (t *transaction) unpack(ctx context.Context, archive io.Reader, kind extract.Kind, below []Layer) (staged, error) {
	t.next++
	dir := filepath.Join(t.dir, fmt.Sprintf("layer-%d", t.next))
	root := filepath.Join(dir, "fs")
	if err := os.MkdirAll(root, 0o700); err != nil {
		return staged{}, fmt.Errorf("stage layer: %w", err)
	}
	if err := os.Chmod(root, 0o755); err != nil { // whatever the umask
		return staged{}, fmt.Errorf("stage layer: %w", err)
	}
	got, err := extract.Tree(ctx, root, archive, extract.Options{
		Kind:   kind,
		Limits: t.s.limits,
		Lowers: t.s.layerDirs(below),
	})
	if err != nil {
		return staged{}, err
	}
	l := Layer{Key: got.DiffID, DiffID: got.DiffID}
	if got.Implied {
		l.Key = chainKey(got.DiffID, below)
	}
	return staged{dir: dir, info: layerInfo{
		Layer:   l,
		Size:    got.Bytes,
		Entries: got.Entries,
		Skipped: got.Skipped,
		Clamped: got.Clamped,
	}}, nil
}

// keep gives an unpacked layer its name in the store. Its contents are on disk
// before the name is, so whatever has the name is whole, also after a power
// failure.
func (t *transaction) keep(ctx context.Context, l staged) (Layer, error) {
	tree, err := extract.Digest(ctx, filepath.Join(l.dir, "fs"))
	if err != nil {
		return Layer{}, err
	}
	l.info.Tree = tree
	data, err := json.Marshal(l.info)
	if err != nil {
		return Layer{}, fmt.Errorf("store layer: %w", err)
	}
	if err := writeFile(filepath.Join(l.dir, layerFile), data); err != nil {
		return Layer{}, fmt.Errorf("store layer: %w", err)
	}
	if err := syncTree(l.dir); err != nil {
		return Layer{}, fmt.Errorf("store layer: %w", err)
	}
	err = os.Rename(l.dir, t.s.layerDir(l.info.Key))
	if errors.Is(err, fs.ErrExist) || errors.Is(err, unix.ENOTEMPTY) {
		return l.info.Layer, nil // somebody else was first with the same bytes
	}
	if err != nil {
		return Layer{}, fmt.Errorf("store layer: %w", err)
	}
	return l.info.Layer, durable.Sync(t.s.path("layers"))
}

// findLayer returns a stored layer by what it holds and lies on.
func (s *Store) findLayer(diffID string, below []Layer) (Layer, error) {
	for _, key := range []string{diffID, chainKey(diffID, below)} {
		info, err := s.layer(key)
		if err == nil {
			return info.Layer, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return Layer{}, err
		}
	}
	return Layer{}, fs.ErrNotExist
}

func (s *Store) layer(key string) (layerInfo, error) {
	var info layerInfo
	data, err := os.ReadFile(filepath.Join(s.layerDir(key), layerFile))
	if err != nil {
		return info, fmt.Errorf("read layer: %w", err)
	}
	if err := json.Unmarshal(data, &info); err != nil {
		return info, fmt.Errorf("read layer %s: %w", key, err)
	}
	return info, nil
}

func (s *Store) layerDirs(layers []Layer) []string {
	var dirs []string
	for _, l := range layers {
		dirs = append(dirs, filepath.Join(s.layerDir(l.Key), "fs"))
	}
	return dirs
}

// commit checks the image, stores it and gives it the name.
func (t *transaction) commit(ctx context.Context, name string, c config) (Image, error) {
	m, err := t.describe(c)
	if err != nil {
		return Image{}, err
	}
	digest, err := m.Spec.digest()
	if err != nil {
		return Image{}, err
	}
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return Image{}, fmt.Errorf("store image: %w", err)
	}
	if err := t.s.publish(digest, name, data); err != nil {
		return Image{}, fmt.Errorf("store image: %w", err)
	}
	t.s.log.Info("image stored", "name", name, "digest", digest, "bytes", m.Size)
	return t.s.Inspect(ctx, digest)
}

func (s *Store) publish(digest, name string, data []byte) (err error) {
	l, err := s.acquire(commitLock, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.release()) }()
	if err := os.MkdirAll(s.path("images", hexOf(digest)), 0o700); err != nil {
		return err
	}
	if err := writeFile(s.path("images", hexOf(digest), metaFile), data); err != nil {
		return err
	}
	if err := durable.Sync(s.path("images")); err != nil {
		return err
	}
	return writeFile(s.path("names", fileOfName(name)), []byte(digest+"\n"))
}

// describe looks into the layers and refuses what cannot be a sandbox.
func (t *transaction) describe(c config) (meta, error) {
	layers := topmost(c.layers)
	view, err := extract.OpenView(t.s.layerDirs(layers))
	if err != nil {
		return meta{}, err
	}
	found, err := examine(view)
	if err := errors.Join(err, view.Close()); err != nil {
		return meta{}, err
	}
	if len(found.problems) > 0 {
		return meta{}, errdefs.New(errdefs.Unprocessable, "this cannot be an image: %s", sentence(found.problems))
	}
	m := meta{
		Spec: spec{
			Layers:     layers,
			Env:        mergeEnv(defaultEnv, []string{"SHELL=" + found.shell}, found.env, c.env),
			WorkingDir: c.workingDir,
			User:       c.user,
		},
		Shell:     found.shell,
		Source:    c.source,
		Recipe:    c.recipe,
		Warnings:  found.warnings,
		CreatedAt: time.Now().UTC().Truncate(time.Second),
	}
	for _, l := range layers {
		info, err := t.s.layer(l.Key)
		if err != nil {
			return meta{}, err
		}
		m.Size += info.Size
		m.Entries += info.Entries
		m.Warnings = append(m.Warnings, info.warnings()...)
	}
	return m, nil
}

// topmost drops a layer's repetitions further down. Overlayfs takes a
// directory once, and what the topmost shows or hides covers the others.
func topmost(layers []Layer) []Layer {
	var kept []Layer
	for _, l := range layers {
		if !slices.Contains(kept, l) {
			kept = append(kept, l)
		}
	}
	return kept
}

func (i layerInfo) warnings() []string {
	var list []string
	if i.Skipped > 0 {
		list = append(list, fmt.Sprintf("%d devices, FIFOs or sockets were left out", i.Skipped))
	}
	if i.Clamped > 0 {
		list = append(list, fmt.Sprintf("%d files had an owner above 65534 and belong to 65534 now", i.Clamped))
	}
	return list
}
