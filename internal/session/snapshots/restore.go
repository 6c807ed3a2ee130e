package snapshots

import (
	"context"
	"errors"
	"io"
	"reflect"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/snapshot"
	"github.com/sandkasten/sandkasten/protocol"
)

// Upload makes a snapshot of an archive, which may be anybody's. It is
// read to its end and everything in it looked at before there is a snapshot.
func (s *Snapshots) Upload(ctx context.Context, p auth.Principal, req UploadRequest, archive io.Reader) (_ Snapshot, err error) {
	k := s.keeper
	if err := k.sessions.CheckReady(); err != nil {
		return Snapshot{}, err
	}
	switch {
	case !k.hasSnapshots():
		return Snapshot{}, errNone()
	case req.Size > k.opts.MaxBytes:
		return Snapshot{}, errdefs.New(errdefs.TooLarge, "the archive has %d bytes; the maximum is %d", req.Size, k.opts.MaxBytes)
	}
	if err := checkNames(req.Name, req.Label); err != nil {
		return Snapshot{}, err
	}
	made := Snapshot{
		ID: k.sessions.NewID(), Owner: p.Owner, Name: req.Name, Label: req.Label, State: Creating, CreatedAt: time.Now().UTC(),
	}
	if err := k.sessions.Admit(ctx); err != nil {
		return Snapshot{}, err
	}
	left, err := k.arrive(p.Owner)
	if err != nil {
		return Snapshot{}, err
	}
	defer left()
	spool, err := newSpool(k.opts.SpoolDir)
	if err != nil {
		return Snapshot{}, err
	}
	defer func() { err = errors.Join(err, spool.close()) }()
	if spool.room, err = k.room(ctx, p); err != nil {
		return Snapshot{}, err
	}
	man, err := k.receive(archive, spool) // for as long as its client takes, and before others have to wait
	if err != nil {
		return Snapshot{}, err
	}
	return k.make(ctx, p, made, spool, func(ctx context.Context) (snapshot.Manifest, error) {
		man.ID, man.Owner, man.Key = made.ID, made.Owner, "" // whatever it says
		claimed := append([]snapshot.Part(nil), man.Parts...)
		if err := k.scan(ctx, &man, spool); err != nil {
			return man, err
		}
		if !reflect.DeepEqual(claimed, man.Parts) {
			return man, errdefs.New(errdefs.Unprocessable, "the snapshot is refused: its manifest says other numbers of files or bytes than it has")
		}
		return man, nil
	})
}

// maxComing bounds an owner's uploads at a time, and so the disk that they can
// take before they are known to be snapshots.
const maxComing = 2

// arrive counts an upload until left is called, or refuses it.
func (k *Keeper) arrive(owner string) (left func(), err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.coming[owner] >= maxComing {
		return nil, errdefs.New(errdefs.ResourceExhausted, "%d snapshots are being uploaded with this key, which is the maximum; wait for one", maxComing)
	}
	k.coming[owner]++
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.coming[owner]--; k.coming[owner] == 0 {
			delete(k.coming, owner)
		}
	}, nil
}

// receive puts the parts of an archive into the spool.
func (k *Keeper) receive(archive io.Reader, spool *spool) (snapshot.Manifest, error) {
	in, err := snapshot.NewReader(archive)
	if err != nil {
		return snapshot.Manifest{}, err
	}
	for {
		part, r, err := in.Next()
		if errors.Is(err, io.EOF) {
			return in.Manifest, nil
		}
		if err != nil {
			return in.Manifest, err
		}
		if _, err := spool.add(part.Name, r); err != nil {
			return in.Manifest, err
		}
	}
}

// Restore unpacks a snapshot into a sandbox that nobody uses yet. The archive is read
// to its end first, so that nothing is unpacked of one that is lost or damaged. When
// it fails, or what it read was not what was kept, the sandbox is to be thrown
// away.
func (k *Keeper) Restore(ctx context.Context, s Snapshot, to *runnerclient.Client) error {
	check := func(_ snapshot.Part, r io.Reader) error {
		_, err := io.Copy(io.Discard, r)
		return err
	}
	if err := k.eachPart(ctx, s, check); err != nil {
		return err
	}
	return k.eachPart(ctx, s, func(part snapshot.Part, r io.Reader) error { return restorePart(ctx, part, r, to) })
}

// eachPart reads the archive of a snapshot from its beginning to its end.
func (k *Keeper) eachPart(ctx context.Context, s Snapshot, take func(snapshot.Part, io.Reader) error) (err error) {
	archive, err := k.opts.Blobs.Open(ctx, s.Key(), 0)
	if errdefs.Is(err, errdefs.NotFound) {
		// It may have been deleted since it was looked up.
		if _, gone := k.Get(ctx, s.Owner, s.ID); errdefs.Is(gone, errdefs.NotFound) {
			return gone
		}
		return errdefs.Wrap(err, errdefs.Unprocessable, "the archive of snapshot %s is lost; delete it", s.ID)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	in, err := snapshot.NewReader(archive)
	if err != nil {
		return err
	}
	// Who can write where the archives are kept is not to choose what is in them.
	if !sameManifest(in.Manifest, s.Manifest) {
		return errdefs.New(errdefs.Unprocessable, "the archive of snapshot %s is not the one that was kept; delete it", s.ID)
	}
	for {
		part, r, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := take(part, r); err != nil {
			return err
		}
	}
}

func sameManifest(a, b snapshot.Manifest) bool {
	if !a.CreatedAt.Equal(b.CreatedAt) {
		return false
	}
	a.CreatedAt = b.CreatedAt
	return reflect.DeepEqual(a, b)
}

func restorePart(ctx context.Context, part snapshot.Part, r io.Reader, to *runnerclient.Client) error {
	u := protocol.Unpack{Path: top, Format: archiveFormat, Snapshot: protocol.SnapshotTree}
	if part.Name == snapshot.Root {
		u = protocol.Unpack{Path: "/", Format: archiveFormat, Snapshot: protocol.SnapshotLayer, AllowOutside: true}
	}
	_, err := to.Unpack(ctx, u, part.Size, r)
	return err
}
