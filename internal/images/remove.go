package images

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/durable"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// InUse returns the ids of the sessions whose sandbox is of the image with this digest and
// exists, is being made or is being destroyed. A caller that makes sandboxes must record
// the digest before it asks for Rootfs, so that the answer is never too late.
type InUse func(digest string) (sessions []string, err error)

// resumeGrace is how long layers of an interrupted import stay for its next
// try.
const resumeGrace = 24 * time.Hour

// Remove takes the name away, and the image with it if that was its last name;
// given a digest, it removes the image with all its names. Layers that no
// other image has are deleted. The error is NotFound if there is no such
// image, Conflict while a sandbox uses it.
func (s *Store) Remove(_ context.Context, name string, inUse InUse) error {
	ref, err := parseReference(name)
	if err != nil {
		return err
	}
	if err := s.removeReference(ref, inUse); err != nil {
		return err
	}
	_, err = s.sweepLayers(0)
	return errors.Join(err, s.emptyTrash())
}

func (s *Store) removeReference(ref reference, inUse InUse) (err error) {
	l, err := s.acquire(commitLock, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.release()) }()
	digest, err := s.resolve(ref)
	if err != nil {
		return err
	}
	all, err := s.names()
	if err != nil {
		return err
	}
	var own []string
	for n, d := range all {
		if d == digest {
			own = append(own, n)
		}
	}
	if ref.name != "" && len(own) > 1 {
		return s.dropName(ref.name)
	}
	return s.removeImage(digest, own, inUse)
}

// removeImage must be called with lock.commit held.
func (s *Store) removeImage(digest string, names []string, inUse InUse) error {
	if err := refuseUsed(digest, names, inUse); err != nil {
		return err
	}
	// Asked again once nobody can get the image any more: a sandbox that got it
	// just before was recorded before that, so this answer sees it.
	trash, err := s.discard(s.path("images", hexOf(digest)))
	if err != nil {
		return err
	}
	if err := refuseUsed(digest, names, inUse); err != nil {
		return errors.Join(err, os.Rename(trash, s.path("images", hexOf(digest))))
	}
	for _, n := range names {
		if err := s.dropName(n); err != nil {
			return err
		}
	}
	s.log.Info("image removed", "digest", digest)
	return nil
}

// maxUsers is how many sessions a refusal names.
const maxUsers = 5

func refuseUsed(digest string, names []string, inUse InUse) error {
	users, err := inUse(digest)
	if err != nil {
		return fmt.Errorf("remove image: %w", err)
	}
	if len(users) == 0 {
		return nil
	}
	image := strings.Join(names, ", ")
	if image == "" {
		image = digest
	}
	more := ""
	if len(users) > maxUsers {
		more = fmt.Sprintf(" and %d more", len(users)-maxUsers)
		users = users[:maxUsers]
	}
	return errdefs.New(errdefs.Conflict, "image %s is in use by the sessions %s%s: destroy them first", image, strings.Join(users, ", "), more)
}

func (s *Store) dropName(name string) error {
	if err := os.Remove(s.path("names", fileOfName(name))); err != nil {
		return fmt.Errorf("remove image name: %w", err)
	}
	return durable.Sync(s.path("names"))
}

// discard moves a directory out of the way; it returns where to.
func (s *Store) discard(dir string) (string, error) {
	to := s.path("trash", rand.Text())
	if err := os.Rename(dir, to); err != nil {
		return "", fmt.Errorf("discard: %w", err)
	}
	return to, nil
}

// emptyTrash deletes what was discarded. Trees are at most as deep as extract
// allows, which os.RemoveAll can bear.
func (s *Store) emptyTrash() error {
	discarded, err := s.discarded()
	if err != nil {
		return fmt.Errorf("empty trash: %w", err)
	}
	var errs []error
	for _, e := range discarded {
		errs = append(errs, os.RemoveAll(s.path("trash", e.Name())))
	}
	return errors.Join(errs...)
}

// discarded lists what nobody takes back: who may do so has lock.commit.
func (s *Store) discarded() (entries []os.DirEntry, err error) {
	l, err := s.acquire(commitLock, unix.LOCK_EX)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.release()) }()
	return os.ReadDir(s.path("trash"))
}

// Swept says what GC removed.
type Swept struct {
	Images  int // that had lost their names
	Layers  int
	Staging int // of imports that died
}

// GC removes images without a name that are not in use, layers that no image
// has, and what crashed imports left. It leaves a layer alone that an import
// may still want, and everything of imports under way in any process.
func (s *Store) GC(ctx context.Context, inUse InUse) (Swept, error) {
	var swept Swept
	images, err := s.sweepImages(ctx, inUse)
	if err != nil {
		return swept, err
	}
	staging, err := s.sweepStaging()
	if err != nil {
		return swept, err
	}
	layers, err := s.sweepLayers(resumeGrace)
	swept = Swept{Images: images, Layers: layers, Staging: staging}
	return swept, errors.Join(err, s.sweepSteps(), s.emptyTrash())
}

func (s *Store) sweepImages(ctx context.Context, inUse InUse) (n int, err error) {
	l, err := s.acquire(commitLock, unix.LOCK_EX)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, l.release()) }()
	list, err := s.List(ctx)
	if err != nil {
		return 0, err
	}
	for _, img := range list {
		if len(img.Names) > 0 {
			continue
		}
		err := s.removeImage(img.Digest, nil, inUse)
		if errdefs.Is(err, errdefs.Conflict) {
			continue
		}
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// sweepStaging discards the staging of imports that died. While any import
// runs it does nothing: the next GC will.
func (s *Store) sweepStaging() (n int, err error) {
	l, err := s.acquire(useLock, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, errBusy) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, l.release()) }()
	entries, err := os.ReadDir(s.path("staging"))
	if err != nil {
		return 0, fmt.Errorf("sweep staging: %w", err)
	}
	for _, e := range entries {
		if _, err := s.discard(s.path("staging", e.Name())); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// sweepLayers discards layers older than grace that no image has, unless an
// import is under way.
func (s *Store) sweepLayers(grace time.Duration) (n int, err error) {
	l, err := s.acquire(useLock, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, errBusy) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, l.release()) }()
	wanted, err := s.wantedLayers()
	if err != nil {
		return 0, err
	}
	entries, err := os.ReadDir(s.path("layers"))
	if err != nil {
		return 0, fmt.Errorf("sweep layers: %w", err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return n, fmt.Errorf("sweep layers: %w", err)
		}
		if wanted["sha256:"+e.Name()] || time.Since(info.ModTime()) < grace {
			continue
		}
		if _, err := s.discard(s.path("layers", e.Name())); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// wantedLayers lists the layers of every image. An image that cannot be read
// stops the sweep: its layers would look like rubbish.
func (s *Store) wantedLayers() (map[string]bool, error) {
	entries, err := os.ReadDir(s.path("images"))
	if err != nil {
		return nil, fmt.Errorf("sweep layers: %w", err)
	}
	wanted := map[string]bool{}
	for _, e := range entries {
		m, err := s.meta("sha256:" + e.Name())
		if errdefs.Is(err, errdefs.NotFound) {
			continue // an import died between the directory and its file
		}
		if err != nil {
			return nil, err
		}
		for _, l := range m.Spec.Layers {
			wanted[l.Key] = true
		}
	}
	return wanted, nil
}

// Garbage is something in the store that GC would remove.
type Garbage struct {
	What string // image, layer, staging or trash
	Path string
}

// Garbage lists what GC would remove now, if no import is under way.
func (s *Store) Garbage(ctx context.Context, inUse InUse) ([]Garbage, error) {
	var found []Garbage
	list, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	wanted := map[string]bool{}
	for _, img := range list {
		used := len(img.Names) > 0
		if !used {
			users, err := inUse(img.Digest)
			if err != nil {
				return nil, err
			}
			used = len(users) > 0
		}
		if !used {
			found = append(found, Garbage{"image", s.path("images", hexOf(img.Digest))})
			continue
		}
		for _, l := range img.Layers {
			wanted[l.Key] = true
		}
	}
	for _, dir := range []string{"layers", "staging", "trash"} {
		entries, err := os.ReadDir(s.path(dir))
		if err != nil {
			return nil, fmt.Errorf("list garbage: %w", err)
		}
		for _, e := range entries {
			info, err := e.Info()
			if err != nil || dir == "layers" && (wanted["sha256:"+e.Name()] || time.Since(info.ModTime()) < resumeGrace) {
				continue // it has gone meanwhile, or is needed
			}
			found = append(found, Garbage{strings.TrimSuffix(dir, "s"), s.path(dir, e.Name())})
		}
	}
	return found, nil
}
