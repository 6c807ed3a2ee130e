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

// ErrBadArchive is in the chain of an error that proves something about the archive
// itself: the store has none under its name, or what it has is damaged. Other errors
// of a restore say nothing about the archive, whatever their codes are.
var ErrBadArchive = errors.New("the archive itself is lost or damaged")

// Restore unpacks a snapshot into a sandbox that nobody uses yet. The archive is read
// to its end first, so that nothing is unpacked of one that is lost or damaged: such an
// error has ErrBadArchive in its chain. When it fails, or what it read was not what was
// kept, the sandbox is to be thrown away.
func (k *Keeper) Restore(ctx context.Context, s Snapshot, to *runnerclient.Client) error {
	check := func(_ snapshot.Part, r io.Reader) error {
		_, err := io.Copy(io.Discard, r)
		return err
	}
	if err := k.eachPart(ctx, s, check); err != nil {
		return proveBad(ctx, err)
	}
	err := k.eachPart(ctx, s, func(part snapshot.Part, r io.Reader) error {
		archive := &archiveReader{in: r}
		err := restorePart(ctx, part, archive, to)
		if archive.err != nil {
			return archive.err
		}
		return fromSandbox(err)
	})
	if unpacking, ok := errors.AsType[*sandboxError](err); ok {
		return k.explainRoom(ctx, s, unpacking.error)
	}
	if err != nil && errdefs.CodeOf(err) == errdefs.Unprocessable {
		// It was whole a moment ago: the store or the way from it is at fault.
		return errdefs.Wrap(err, errdefs.Unavailable, "the archive of snapshot %s was whole at first and not when it was read again; try again", s.ID)
	}
	return err
}

// proveBad adds ErrBadArchive to an error that proves an archive to be bad. A reader
// whose context ended proves nothing: it may look like one that was cut.
func proveBad(ctx context.Context, err error) error {
	known, ok := errors.AsType[*errdefs.Error](err)
	if !ok && ctx.Err() == nil {
		return errdefs.Wrap(err, errdefs.Unavailable, "the archive cannot be read now; the daemon's log says why, try again later")
	}
	if !ok || ctx.Err() != nil || known.Code != errdefs.Unprocessable && known.Code != errdefs.TooLarge {
		return err
	}
	proven := *known
	proven.Cause = errors.Join(ErrBadArchive, known.Cause)
	return &proven
}

// archiveReader remembers what was wrong with an archive that a sandbox unpacks.
type archiveReader struct {
	in  io.Reader
	err error
}

func (a *archiveReader) Read(p []byte) (int, error) {
	n, err := a.in.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		a.err = err
	}
	return n, err
}

// sandboxError is an error of the sandbox that unpacks.
type sandboxError struct{ error }

func (e *sandboxError) Unwrap() error { return e.error }

func fromSandbox(err error) error {
	if err == nil {
		return nil
	}
	return &sandboxError{err}
}

// explainRoom says of a sandbox without room for a snapshot that the host's disk may be
// the reason: the disks of sandboxes are full before their host's disk is.
func (k *Keeper) explainRoom(ctx context.Context, s Snapshot, err error) error {
	if !errdefs.Is(err, errdefs.InsufficientSpace) {
		return err
	}
	if refused := k.sessions.Admit(ctx); refused != nil {
		return errdefs.Wrap(errors.Join(err, refused), errdefs.InsufficientSpace, "the host's disk has no room for the files of snapshot %s now; try again later: %s", s.ID, errdefs.MessageOf(refused))
	}
	const mib = 1 << 20
	return errdefs.Wrap(err, errdefs.InsufficientSpace, "there is no room for the files of snapshot %s, up to %d MiB: the host's disk is nearly full, or the sandbox's own is too small (disk_mb); try again later, or with a larger one",
		s.ID, (s.Manifest.Bytes()+mib-1)/mib)
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
