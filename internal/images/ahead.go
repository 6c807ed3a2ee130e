package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

const downloads = 3 // at once

// ahead downloads layers while others are unpacked, which must happen in
// order. A download is verified before anything reads it.
type ahead struct {
	blobs  // configurations and manifests come straight from here
	group  *errgroup.Group
	cancel context.CancelFunc
	dir    string
	report ProgressFunc
	total  int64
	done   atomic.Int64
	ready  map[v1.Hash]chan struct{} // closed when the file is there or failed
	mu     sync.Mutex
	failed error // guarded by mu; the first
}

// fetchAhead starts downloading the layers of img that the store lacks, into
// dir. The caller calls stop.
func (s *Store) fetchAhead(ctx context.Context, from blobs, img ociImage, dir string, report ProgressFunc) *ahead {
	ctx, cancel := context.WithCancel(ctx)
	a := &ahead{
		blobs:  from,
		group:  &errgroup.Group{},
		cancel: cancel,
		dir:    dir,
		report: report,
		ready:  map[v1.Hash]chan struct{}{},
	}
	var todo []v1.Descriptor
	for _, d := range s.missing(img) {
		if a.ready[d.Digest] == nil && d.Size <= s.limits.Bytes {
			a.ready[d.Digest] = make(chan struct{})
			a.total += d.Size
			todo = append(todo, d)
		}
	}
	// One goroutine feeds the rest, since SetLimit makes Go wait.
	a.group.Go(func() error {
		var inner errgroup.Group
		inner.SetLimit(downloads)
		for _, d := range todo {
			inner.Go(func() error {
				defer close(a.ready[d.Digest])
				err := a.fetch(ctx, d)
				if err != nil {
					a.fail(err)
				}
				return nil
			})
		}
		return inner.Wait()
	})
	return a
}

// missing lists the layers to download, bottom first.
func (s *Store) missing(img ociImage) []v1.Descriptor {
	var list []v1.Descriptor
	var below []Layer
	for i, d := range img.layers {
		l, err := s.findLayer(img.diffIDs[i], below)
		if err != nil {
			list = append(list, d)
		}
		below = append([]Layer{l}, below...)
	}
	return list
}

func (a *ahead) file(h v1.Hash) string { return filepath.Join(a.dir, "blob-"+h.Hex) }

func (a *ahead) fetch(ctx context.Context, d v1.Descriptor) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	v, err := openVerified(ctx, a.blobs.blob, d)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	f, err := os.OpenFile(a.file(d.Digest), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("stage download: %w", err)
	}
	_, err = io.Copy(io.MultiWriter(f, countInto{&a.done}), v)
	_, explained := errors.AsType[*errdefs.Error](err)
	switch {
	case err == nil || explained:
	case errors.Is(err, unix.ENOSPC):
		err = errdefs.Wrap(err, errdefs.InsufficientSpace, "the disk is full; the image was not stored")
	default:
		err = errdefs.Wrap(err, errdefs.Unavailable, "the download of %s broke off; try again", d.Digest)
	}
	return errors.Join(err, f.Close())
}

// fail notes why, and stops the other downloads.
func (a *ahead) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failed == nil {
		a.failed = err
	}
	a.cancel()
}

// blob waits for a layer's download and opens it.
func (a *ahead) blob(ctx context.Context, d v1.Descriptor) (io.ReadCloser, error) {
	ready, ok := a.ready[d.Digest]
	if !ok {
		return a.blobs.blob(ctx, d)
	}
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for waiting := true; waiting; {
		select {
		case <-ready:
			waiting = false
		case <-tick.C:
			a.report.report(Progress{Phase: "download", Done: a.done.Load(), Total: a.total})
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	a.mu.Lock()
	err := a.failed
	a.mu.Unlock()
	if err != nil {
		return nil, err
	}
	f, err := os.Open(a.file(d.Digest))
	if err != nil {
		return nil, fmt.Errorf("open download: %w", err)
	}
	return f, nil
}

// stop ends what still runs and waits for it. The files stay for the staging
// directory's end.
func (a *ahead) stop() error {
	a.cancel()
	return a.group.Wait()
}

type countInto struct{ n *atomic.Int64 }

func (c countInto) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}
