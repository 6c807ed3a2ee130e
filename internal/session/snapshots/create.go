package snapshots

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/failpoint"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/snapshot"
	"github.com/sandkasten/sandkasten/protocol"
)

// Create saves the files of a session as they are at one moment: its
// programs stand still while they are read. It returns when the archive is
// kept. When it fails, nothing is left.
//
// With an idempotency key it goes on when ctx is done, and a request with a key
// that was used returns the snapshot of the first, which it waits for.
func (s *Snapshots) Create(ctx context.Context, p auth.Principal, sessionID string, req Request) (_ Snapshot, err error) {
	k := s.keeper
	if err := k.sessions.CheckReady(); err != nil {
		return Snapshot{}, err
	}
	if err := k.sessions.CheckKnown(ctx, p, sessionID); err != nil {
		return Snapshot{}, err
	}
	plan, err := k.plan(&req)
	if err != nil {
		return Snapshot{}, err
	}
	if !req.Ends {
		if err := k.sessions.Admit(ctx); err != nil {
			return Snapshot{}, err
		}
	}
	made := Snapshot{
		ID: k.sessions.NewID(), Owner: p.Owner, Name: req.Name, Label: req.Label, State: Creating,
		CreatedAt: time.Now().UTC(), IdempotencyKey: req.IdempotencyKey,
	}
	if made.RequestHash, err = requestHash(sessionID, req); err != nil {
		return Snapshot{}, err
	}
	made.Manifest = snapshot.Manifest{
		Format: snapshot.Format, ID: made.ID, Owner: made.Owner, SessionID: sessionID, Scope: req.Scope,
		CreatedAt: made.CreatedAt, Include: req.Include, Exclude: req.Exclude,
	}
	if req.Key != nil {
		made.Manifest.Key = req.Key(made.ID)
	}
	making := ctx
	if req.IdempotencyKey != "" {
		making = context.WithoutCancel(ctx)
	}
	spool, err := newSpool(k.opts.SpoolDir)
	if err != nil {
		return Snapshot{}, err
	}
	defer func() { err = errors.Join(err, spool.close()) }()
	kept, err := k.make(making, p, made, spool, func(ctx context.Context) (_ snapshot.Manifest, err error) {
		if spool.room, err = k.roomFor(ctx, p, req); err != nil {
			return snapshot.Manifest{}, err
		}
		man, err := k.pack(ctx, p, made.Manifest, plan, spool)
		if err == nil && req.MustMatch && len(req.Include) > 0 && man.Entries() == 0 {
			err = errdefs.Invalid("include_paths", "match no file of the session")
		}
		return man, err
	})
	if req.IdempotencyKey != "" && errdefs.Is(err, errdefs.AlreadyExists) {
		return k.follow(ctx, made)
	}
	return kept, err
}

// requestHash tells a retry from another request.
func requestHash(sessionID string, req Request) (string, error) {
	req.IdempotencyKey = ""
	text, err := json.Marshal(struct {
		SessionID string
		Request
	}{sessionID, req})
	if err != nil {
		return "", fmt.Errorf("hash a request: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// follow returns the snapshot that has s's idempotency key already.
func (k *Keeper) follow(ctx context.Context, s Snapshot) (Snapshot, error) {
	first, err := k.opts.Store.FindSnapshot(ctx, s.Owner, s.IdempotencyKey)
	if err != nil {
		return Snapshot{}, err
	}
	if first.RequestHash != s.RequestHash {
		return Snapshot{}, errdefs.New(errdefs.Unprocessable, "this Idempotency-Key was used with another request; send a new key")
	}
	k.mu.Lock()
	made := k.making[first.ID]
	k.mu.Unlock()
	if made != nil {
		select {
		case <-made:
		case <-ctx.Done():
			return Snapshot{}, ctx.Err()
		}
	}
	found, err := k.Get(ctx, s.Owner, first.ID)
	if errdefs.Is(err, errdefs.NotFound) {
		return found, errdefs.Wrap(err, errdefs.Unavailable, "the snapshot could not be made; try again")
	}
	return found, err
}

// make makes a snapshot of the parts in the spool, of which fill returns the
// manifest when they are there: its row, the archive, its row again.
func (k *Keeper) make(ctx context.Context, p auth.Principal, s Snapshot, spool *spool, fill func(context.Context) (snapshot.Manifest, error)) (_ Snapshot, err error) {
	ctx, cancel := context.WithTimeout(ctx, k.opts.Timeout)
	defer cancel()
	defer k.begin(s.ID)()
	if err := k.opts.Store.AddSnapshot(ctx, s, k.opts.MaxCount); err != nil {
		return Snapshot{}, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, k.remove(ctx, s))
		}
	}()
	if err := failpoint.Hit("snapshot.row"); err != nil {
		return Snapshot{}, err
	}
	done, err := k.slots.take(ctx, s.Owner)
	if err != nil {
		return Snapshot{}, err
	}
	defer done()
	if s.Manifest, err = fill(ctx); err != nil {
		return Snapshot{}, err
	}
	// Others of the owner may have been made meanwhile.
	counted := s
	counted.Size = spool.size
	if err := k.opts.Store.CountSnapshot(ctx, counted, k.quotas.QuotaOf(p).SnapshotBytes); err != nil {
		return Snapshot{}, err
	}
	s = counted
	if err := failpoint.Hit("snapshot.counted"); err != nil {
		return Snapshot{}, err
	}
	if s.Size, err = k.keep(ctx, s, spool); err != nil {
		return Snapshot{}, err
	}
	if err := failpoint.Hit("snapshot.kept"); err != nil {
		return Snapshot{}, err
	}
	s.State = Ready
	if err := k.opts.Store.PutSnapshot(context.WithoutCancel(ctx), s); err != nil {
		return Snapshot{}, err
	}
	return s, failpoint.Hit("snapshot.ready")
}

// begin notes that a snapshot is being made, until end is called.
func (k *Keeper) begin(id string) (end func()) {
	made := make(chan struct{})
	k.mu.Lock()
	defer k.mu.Unlock()
	k.making[id] = made
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.making, id)
		close(made)
	}
}

// pack has a session packed while it stands still, and looks at what came when
// it goes on.
func (k *Keeper) pack(ctx context.Context, p auth.Principal, man snapshot.Manifest, plan []partPlan, spool *spool) (snapshot.Manifest, error) {
	err := k.sessions.StandStill(ctx, p, man.SessionID, func(ctx context.Context, from Source) error {
		man.Image, man.ImageDigest, man.Cwd = from.Image, from.ImageDigest, from.Cwd
		for _, p := range plan {
			if p.name == snapshot.Root && from.ReadonlyRoot {
				continue // nothing was changed, and a session with such a root can begin with the snapshot
			}
			part, err := k.packPart(ctx, from.Client, p, spool)
			if p.fallback != "" && errdefs.Is(err, errdefs.Unimplemented) {
				man.Scope = p.fallback
				continue
			}
			if err != nil {
				return err
			}
			man.Parts = append(man.Parts, part)
		}
		if len(man.Parts) == 0 {
			return errdefs.Invalid("exclude_paths", "must leave something: the session's root is read-only and has no changes")
		}
		return failpoint.Hit("snapshot.packed")
	})
	if err != nil {
		return man, err
	}
	return man, k.scan(ctx, &man, spool)
}

func (k *Keeper) packPart(ctx context.Context, from *runnerclient.Client, p partPlan, spool *spool) (snapshot.Part, error) {
	packed, err := from.Pack(ctx, protocol.Pack{
		Path: top, Format: archiveFormat, Snapshot: p.how, Include: p.include, Exclude: p.exclude,
	})
	if err != nil {
		return snapshot.Part{}, err
	}
	part, err := spool.add(p.name, packed)
	return part, errors.Join(err, packed.Close())
}

// scan looks at every part in the spool and notes what is in it.
func (k *Keeper) scan(ctx context.Context, man *snapshot.Manifest, spool *spool) error {
	left := snapshot.Limits{Bytes: k.opts.MaxUnpack, Entries: k.opts.MaxFiles}
	for i, r := range spool.readers(man.Parts) {
		p := &man.Parts[i]
		var err error
		if p.Entries, p.Bytes, err = snapshot.Scan(ctx, r, left); err != nil {
			return err
		}
		left.Entries, left.Bytes = left.Entries-p.Entries, left.Bytes-p.Bytes
	}
	return nil
}

// keep writes the archive to where it stays.
func (k *Keeper) keep(ctx context.Context, s Snapshot, spool *spool) (size int64, err error) {
	r, w := io.Pipe()
	var writing sync.WaitGroup
	writing.Go(func() {
		write := snapshot.Write
		if strings.Contains(s.Key(), ".tar.gz") {
			write = snapshot.WriteGzip
		}
		w.CloseWithError(write(w, s.Manifest, spool.readers(s.Manifest.Parts)...))
	})
	size, err = k.opts.Blobs.Put(ctx, s.Key(), r)
	err = errors.Join(err, r.Close()) // which ends the writer, too
	writing.Wait()
	return size, err
}

// What the runner is asked for parts.
const (
	archiveFormat = "tar.zst"
	top           = "." // of relative paths: the workspace, wherever that is
)

// spool is a file without a name, so that nothing of it outlives the daemon. It
// has parts of a snapshot one behind the other.
type spool struct {
	file *os.File
	size int64
	room room // to be set before anything is added
}

func newSpool(dir string) (*spool, error) {
	file, err := os.CreateTemp(dir, "snapshot-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &spool{file: file}, nil
}

func (s *spool) close() error { return s.file.Close() }

// add copies a part to the end.
func (s *spool) add(name snapshot.PartName, r io.Reader) (snapshot.Part, error) {
	part := snapshot.Part{Name: name}
	sum := sha256.New()
	n, err := copyTo(s.file, sum, io.LimitReader(r, s.room.bytes-s.size+1))
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return part, errdefs.Wrap(err, errdefs.InsufficientSpace, "the daemon has no room for this snapshot; remove snapshots, sessions or images")
	case err != nil:
		return part, err
	case s.size+n > s.room.bytes:
		return part, s.room.over
	}
	s.size += n
	part.Size, part.SHA256 = n, hex.EncodeToString(sum.Sum(nil))
	return part, nil
}

// copyTo copies with a large buffer.
func copyTo(file *os.File, sum hash.Hash, r io.Reader) (int64, error) {
	return io.CopyBuffer(io.MultiWriter(file, sum), r, make([]byte, 256<<10))
}

// readers are the parts, which begin one behind the other.
func (s *spool) readers(parts []snapshot.Part) []io.Reader {
	var readers []io.Reader
	at := int64(0)
	for _, p := range parts {
		readers = append(readers, io.NewSectionReader(s.file, at, p.Size))
		at += p.Size
	}
	return readers
}
