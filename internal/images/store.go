// Package images keeps root filesystems that sandboxes start from: it imports,
// pulls and builds them, stores them by content, and says which may be used.
// What an archive does to a disk is in images/extract; mounting is the
// driver's business.
//
// A store is a directory. Several processes may use one at once:
//
//	layers/<hex>/fs        one unpacked layer, never changed once it has this name
//	layers/<hex>/layer.json
//	images/<hex>/meta.json one image: its layers, environment and origin
//	images/<hex>/groups.json the hosts of its package clients, once they were asked
//	names/<name>           the digest that a name stands for
//	steps/<hex>            the layer that a step of a recipe has made lately
//	staging/<random>/      imports under way; left over ones are swept
//	trash/<random>         being deleted
//	lock.use, lock.commit  see locks.go
package images

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images/extract"
	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/smallfile"
)

// Options says where a store is and what it may hold and give out.
type Options struct {
	Dir string // absolute; made if absent
	// Allowed are the names and digests that Resolve gives out; empty allows
	// every image in the store.
	Allowed []string
	Limits  extract.Limits // zero means extract.DefaultLimits
	Log     *slog.Logger   // nil discards
}

// Store is an image store. Its methods may be called concurrently, and other
// processes may use the same directory. It holds no resources.
type Store struct {
	dir     string
	allowed []reference
	limits  extract.Limits
	log     *slog.Logger
}

// Image describes one stored image.
type Image struct {
	Digest     string    `json:"digest"`
	Names      []string  `json:"names"`  // sorted; empty if newer images took them
	Layers     []Layer   `json:"layers"` // top first
	Size       int64     `json:"size"`   // bytes of its files, layers shared with others included
	Entries    int64     `json:"entries"`
	Env        []string  `json:"env"` // "NAME=value", sorted
	WorkingDir string    `json:"working_dir,omitempty"`
	User       string    `json:"user,omitempty"`
	Shell      string    `json:"shell"`            // the best one in it: /bin/bash or /bin/sh
	Source     string    `json:"source,omitempty"` // where it came from, for people
	Recipe     string    `json:"recipe,omitempty"` // digest of the recipe it was built from
	Warnings   []string  `json:"warnings,omitempty"`
	CreatedAt  time.Time `json:"created_at"` // when it was stored

	// NetworkGroups are the hosts that its package clients name, by group: see
	// Groups. Nil is not known yet.
	NetworkGroups map[string][]string `json:"network_groups,omitzero"`
}

// Layer is one layer of an image.
type Layer struct {
	Key    string `json:"key"`     // its directory: sha256:... of what the tree depends on
	DiffID string `json:"diff_id"` // sha256:... of the uncompressed archive
}

// Rootfs is what a driver needs to start a sandbox from an image.
type Rootfs struct {
	Layers     []string // absolute directories for overlayfs, top first
	Env        []string // "NAME=value": what a login would have
	WorkingDir string   // as the image says, unchecked; may be empty
	User       string   // as the image says, unchecked; may be empty
	Shell      string   // absolute path inside
	HasBash    bool
}

// Progress is one step of a long operation.
type Progress struct {
	Phase string // for people: "unpack", "download sha256:1234", "installing packages"
	Done  int64  // bytes
	Total int64  // bytes; 0 if nobody knows
}

// ProgressFunc is called from one goroutine at a time, up to a few times per
// second. A nil ProgressFunc is silent.
type ProgressFunc func(Progress)

// Open makes the store's directories where they are missing. An entry of
// Allowed that is not an image name is InvalidArgument; one that names no
// stored image is not an error, since the image may come later.
func Open(opt Options) (*Store, error) {
	if !filepath.IsAbs(opt.Dir) {
		return nil, errdefs.Invalid("images directory", "%q must be absolute", opt.Dir)
	}
	s := &Store{dir: opt.Dir, limits: opt.Limits, log: opt.Log}
	if s.limits == (extract.Limits{}) {
		s.limits = extract.DefaultLimits()
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	for _, a := range opt.Allowed {
		ref, err := parseReference(a)
		if err != nil {
			return nil, fmt.Errorf("allowed_images: %w", err)
		}
		s.allowed = append(s.allowed, ref)
	}
	for _, d := range []string{"layers", "images", "names", "staging", "trash"} {
		if err := os.MkdirAll(s.path(d), 0o700); err != nil {
			return nil, fmt.Errorf("open image store: %w", err)
		}
	}
	// The trees hold files owned by 0 and modes from strangers; nobody but
	// root may look in, whoever made the directory.
	if err := os.Chmod(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("open image store: %w", err)
	}
	return s, nil
}

func (s *Store) path(elem ...string) string {
	return filepath.Join(append([]string{s.dir}, elem...)...)
}

func hexOf(digest string) string { return strings.TrimPrefix(digest, "sha256:") }

func (s *Store) layerDir(key string) string { return s.path("layers", hexOf(key)) }

// Resolve returns the digest that name stands for now. The allow-list is
// checked on that digest, so another name for an allowed image is allowed and
// an allowed name for another image is too, but not a similar name.
//
// The error is InvalidArgument for what is no image name, NotFound if the
// store has no such image, PermissionDenied if it may not be used.
func (s *Store) Resolve(_ context.Context, name string) (string, error) {
	ref, err := parseReference(name)
	if err != nil {
		return "", err
	}
	digest, err := s.resolve(ref)
	if err != nil {
		return "", err
	}
	allowed, err := s.Allowed(digest)
	if err != nil {
		return "", err
	}
	if !allowed {
		return "", errdefs.New(errdefs.PermissionDenied,
			"image %q may not be used here; allowed_images in the configuration names those that may", name)
	}
	return digest, nil
}

// Allowed reports whether Resolve gives out the image with this digest.
func (s *Store) Allowed(digest string) (bool, error) {
	if len(s.allowed) == 0 || protection.Off(protection.AllowList) {
		return true, nil
	}
	for _, a := range s.allowed {
		got, err := s.resolve(a)
		switch {
		case errdefs.Is(err, errdefs.NotFound):
		case err != nil:
			return false, err
		case got == digest:
			return true, nil
		}
	}
	return false, nil
}

// Listed reports whether the allow-list has the name itself, whatever it stands
// for, and whether there is no list.
func (s *Store) Listed(name string) (listed, open bool, err error) {
	ref, err := parseReference(name)
	if err != nil {
		return false, false, err
	}
	named := func(a reference) bool { return a.name == ref.name && a.digest == "" }
	return slices.ContainsFunc(s.allowed, named), len(s.allowed) == 0, nil
}

// resolve is Resolve without the allow-list.
func (s *Store) resolve(ref reference) (string, error) {
	digest := ref.digest
	if ref.name != "" {
		data, err := smallfile.Read(s.path("names", fileOfName(ref.name)))
		if errors.Is(err, fs.ErrNotExist) {
			if own, ok := aliases[ref.name]; ok {
				return s.resolve(reference{name: own, digest: ref.digest})
			}
			return "", unknown(ref.name)
		}
		if err != nil {
			return "", fmt.Errorf("resolve image: %w", err)
		}
		digest = strings.TrimSpace(string(data))
		if !digestPat.MatchString(digest) {
			return "", fmt.Errorf("resolve image: names/%s does not hold a digest", fileOfName(ref.name))
		}
		if ref.digest != "" && ref.digest != digest {
			return "", errdefs.New(errdefs.NotFound, "image %q is %s here, not %s", ref.name, digest, ref.digest)
		}
	}
	if _, err := os.Stat(s.path("images", hexOf(digest), metaFile)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return "", unknown(digest)
		}
		return "", fmt.Errorf("resolve image: %w", err)
	}
	return digest, nil
}

func unknown(name string) error {
	return errdefs.New(errdefs.NotFound, "no image %q here; `sandkasten image ls` shows what there is, "+
		"`sandkasten image build|pull|import` adds one", name).Because(errdefs.NoSuchImage)
}

// Rootfs returns what a sandbox of the image with this digest is made of. The
// error is NotFound if it is not in the store. The directories stay until the
// image is removed, which Remove and GC refuse while a sandbox uses it.
func (s *Store) Rootfs(_ context.Context, digest string) (Rootfs, error) {
	m, err := s.meta(digest)
	if err != nil {
		return Rootfs{}, err
	}
	r := Rootfs{
		Env:        m.Spec.Env,
		WorkingDir: m.Spec.WorkingDir,
		User:       m.Spec.User,
		Shell:      m.Shell,
		HasBash:    m.Shell == bashPath,
	}
	for _, l := range m.Spec.Layers {
		r.Layers = append(r.Layers, filepath.Join(s.layerDir(l.Key), "fs"))
	}
	return r, nil
}

// Inspect returns the image that name, or a digest, stands for. The allow-list
// does not matter. The error is NotFound if there is none.
func (s *Store) Inspect(_ context.Context, name string) (Image, error) {
	ref, err := parseReference(name)
	if err != nil {
		return Image{}, err
	}
	digest, err := s.resolve(ref)
	if err != nil {
		return Image{}, err
	}
	names, err := s.names()
	if err != nil {
		return Image{}, err
	}
	return s.image(digest, names)
}

// List returns every image, newest first.
func (s *Store) List(_ context.Context) ([]Image, error) {
	names, err := s.names()
	if err != nil {
		return nil, err
	}
	dirs, err := os.ReadDir(s.path("images"))
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	list := []Image{}
	for _, d := range dirs {
		img, err := s.image("sha256:"+d.Name(), names)
		if errdefs.Is(err, errdefs.NotFound) {
			continue // removed since, or not committed yet
		}
		if err != nil {
			return nil, err
		}
		list = append(list, img)
	}
	slices.SortFunc(list, func(a, b Image) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return list, nil
}

func (s *Store) image(digest string, names map[string]string) (Image, error) {
	m, err := s.meta(digest)
	if err != nil {
		return Image{}, err
	}
	img := Image{
		Digest:     digest,
		Names:      []string{},
		Layers:     m.Spec.Layers,
		Size:       m.Size,
		Entries:    m.Entries,
		Env:        m.Spec.Env,
		WorkingDir: m.Spec.WorkingDir,
		User:       m.Spec.User,
		Shell:      m.Shell,
		Source:     m.Source,
		Recipe:     m.Recipe,
		Warnings:   m.Warnings,
		CreatedAt:  m.CreatedAt,
	}
	if img.NetworkGroups, err = s.Groups(digest); err != nil {
		return Image{}, err
	}
	for name, d := range names {
		if d == digest {
			img.Names = append(img.Names, name)
		}
	}
	slices.Sort(img.Names)
	return img, nil
}

// names returns every name and its digest.
func (s *Store) names() (map[string]string, error) {
	files, err := os.ReadDir(s.path("names"))
	if err != nil {
		return nil, fmt.Errorf("list image names: %w", err)
	}
	names := map[string]string{}
	for _, f := range files {
		if strings.HasPrefix(f.Name(), tempPrefix) {
			continue
		}
		data, err := os.ReadFile(s.path("names", f.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list image names: %w", err)
		}
		names[nameOfFile(f.Name())] = strings.TrimSpace(string(data))
	}
	return names, nil
}

func (s *Store) meta(digest string) (meta, error) {
	var m meta
	if !digestPat.MatchString(digest) {
		return m, unknown(digest)
	}
	data, err := os.ReadFile(s.path("images", hexOf(digest), metaFile))
	if errors.Is(err, fs.ErrNotExist) {
		return m, unknown(digest)
	}
	if err != nil {
		return m, fmt.Errorf("read image: %w", err)
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("read image %s: %w", digest, err)
	}
	return m, nil
}
