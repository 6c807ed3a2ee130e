package artifacts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// Export keeps a file of size bytes. Of a, the ID, the content's hash and size, the
// state and the time are made here. When it fails, nothing is kept.
func (s *Service) Export(ctx context.Context, a Artifact, id string, size int64, content io.Reader) (_ Artifact, err error) {
	if size > s.opts.MaxBytes {
		return Artifact{}, s.tooLarge()
	}
	spool, err := newSpool(s.opts.SpoolDir)
	if err != nil {
		return Artifact{}, err
	}
	defer func() { err = errors.Join(err, spool.Close()) }()
	if a.Size, a.SHA256, err = s.fill(spool, content); err != nil {
		return Artifact{}, err
	}
	a.ID, a.State, a.CreatedAt = id, Creating, time.Now().UTC()
	release, err := s.locks.Acquire(ctx, a.key())
	if err != nil {
		return Artifact{}, err
	}
	defer release()
	if err := s.opts.Store.AddArtifact(ctx, a, s.opts.Quota, s.opts.MaxCount); err != nil {
		return Artifact{}, err
	}
	if err := s.keep(ctx, a, spool); err != nil {
		undo := context.WithoutCancel(ctx)
		return Artifact{}, errors.Join(err, s.remove(undo, a))
	}
	a.State = Ready
	return a, nil
}

// keep puts the content where it stays, if the owner has not the same there. The
// caller has the lock of the content.
func (s *Service) keep(ctx context.Context, a Artifact, content io.Reader) error {
	there, err := s.opts.Store.HasContent(ctx, a.Owner, a.SHA256, Ready)
	if err != nil {
		return err
	}
	if !there {
		if _, err := s.opts.Blobs.Put(ctx, a.key(), content); err != nil {
			return err
		}
	}
	return s.opts.Store.ReadyArtifact(context.WithoutCancel(ctx), a.ID)
}

// remove forgets an artifact, and its content if no other one has it. The caller has
// the lock of the content.
func (s *Service) remove(ctx context.Context, a Artifact) error {
	if a.State != Deleting {
		if err := s.opts.Store.DropArtifacts(ctx, Selection{ID: a.ID}); err != nil {
			return err
		}
	}
	used, err := s.opts.Store.HasContent(ctx, a.Owner, a.SHA256, Creating, Ready)
	if err != nil {
		return err
	}
	if !used {
		if err := s.opts.Blobs.Delete(ctx, a.key()); err != nil {
			return err
		}
	}
	return s.opts.Store.DeleteArtifact(ctx, a.ID)
}

// fill copies content to the spool and winds that back.
func (s *Service) fill(spool *os.File, content io.Reader) (size int64, sum string, err error) {
	hash := sha256.New()
	size, err = io.CopyBuffer(io.MultiWriter(spool, hash), io.LimitReader(content, s.opts.MaxBytes+1), make([]byte, 256<<10))
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return 0, "", errdefs.Wrap(err, errdefs.InsufficientSpace, "the daemon has no room for this file; remove snapshots, sessions or images")
	case err != nil:
		return 0, "", err
	case size > s.opts.MaxBytes:
		return 0, "", s.tooLarge()
	}
	_, err = spool.Seek(0, io.SeekStart)
	return size, hex.EncodeToString(hash.Sum(nil)), err
}

func (s *Service) tooLarge() error {
	return errdefs.New(errdefs.TooLarge, "the file has more than %d bytes, which is the limit of an artifact (files.max_upload_mb)", s.opts.MaxBytes)
}

// newSpool returns a file without a name, so that nothing of it outlives the daemon.
func newSpool(dir string) (*os.File, error) {
	file, err := os.CreateTemp(dir, "artifact-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
