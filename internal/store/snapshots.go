package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	sqlite "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
)

var _ snapshots.Store = (*Store)(nil)

// snapshotNamesSQL makes an index that no migration has, as clockSQL makes a table.
const snapshotNamesSQL = `CREATE INDEX IF NOT EXISTS snapshots_name ON snapshots (owner, name, created_at)`

// snapshotSQL selects what scanSnapshot reads.
const snapshotSQL = "SELECT id, owner, name, label, state, size, manifest, created_at, idempotency_key, request_hash FROM snapshots"

func scanSnapshot(row row) (snapshots.Snapshot, error) {
	var s snapshots.Snapshot
	var manifest string
	var created int64
	err := row.Scan(&s.ID, &s.Owner, &s.Name, &s.Label, &s.State, &s.Size, &manifest, &created, &s.IdempotencyKey, &s.RequestHash)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal([]byte(manifest), &s.Manifest); err != nil {
		return s, fmt.Errorf("decode the manifest of snapshot %s: %w", s.ID, err)
	}
	s.CreatedAt = instant(created)
	return s, nil
}

func encodeManifest(s snapshots.Snapshot) (string, error) {
	text, err := json.Marshal(s.Manifest)
	if err != nil {
		return "", fmt.Errorf("encode the manifest of snapshot %s: %w", s.ID, err)
	}
	return string(text), nil
}

// AddSnapshot implements snapshots.Store.
func (s *Store) AddSnapshot(ctx context.Context, snap snapshots.Snapshot, most int) error {
	manifest, err := encodeManifest(snap)
	if err != nil {
		return err
	}
	result, err := s.write.ExecContext(ctx, `INSERT INTO snapshots (id, owner, name, label, state, size, manifest, created_at, idempotency_key, request_hash)
		SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ? WHERE ? = 0 OR (SELECT count(*) FROM snapshots WHERE owner = ?) < ?
			OR EXISTS (SELECT 1 FROM snapshots WHERE owner = ? AND idempotency_key = ? AND idempotency_key <> '')`,
		snap.ID, snap.Owner, snap.Name, snap.Label, string(snap.State), snap.Size, manifest, micros(snap.CreatedAt), snap.IdempotencyKey, snap.RequestHash,
		most, snap.Owner, most, snap.Owner, snap.IdempotencyKey)
	if e, ok := errors.AsType[*sqlite.Error](err); ok && e.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE {
		return errdefs.Wrap(err, errdefs.AlreadyExists, "a snapshot has this Idempotency-Key already")
	}
	if err != nil {
		return wrap("write snapshot "+snap.ID, err)
	}
	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		return errdefs.New(errdefs.ResourceExhausted, "the maximum of %d snapshots for one key is reached; delete one", most)
	}
	return err
}

// PutSnapshot implements snapshots.Store.
func (s *Store) PutSnapshot(ctx context.Context, snap snapshots.Snapshot) error {
	manifest, err := encodeManifest(snap)
	if err != nil {
		return err
	}
	if _, err := s.execChange(ctx, "UPDATE snapshots SET state = ?, size = ?, manifest = ? WHERE id = ?",
		string(snap.State), snap.Size, manifest, snap.ID); err != nil {
		return wrap("write snapshot "+snap.ID, err)
	}
	return nil
}

// CountSnapshot implements snapshots.Store.
func (s *Store) CountSnapshot(ctx context.Context, snap snapshots.Snapshot, most int64) error {
	result, err := s.write.ExecContext(ctx, `UPDATE snapshots SET size = ? WHERE id = ?
		AND (? = 0 OR ? + (SELECT coalesce(sum(size), 0) FROM snapshots WHERE owner = ? AND id <> ?) <= ?)`,
		snap.Size, snap.ID, most, snap.Size, snap.Owner, snap.ID, most)
	if err != nil {
		return wrap("count snapshot "+snap.ID, err)
	}
	if n, err := result.RowsAffected(); err != nil || n > 0 {
		return err
	}
	var others int64
	if err := s.read.QueryRowContext(ctx, "SELECT coalesce(sum(size), 0) FROM snapshots WHERE owner = ? AND id <> ?", snap.Owner, snap.ID).Scan(&others); err != nil {
		return wrap("count the snapshots of an owner", err)
	}
	return snapshots.OverTotal(others, most, "delete some")
}

// GetSnapshot implements snapshots.Store.
func (s *Store) GetSnapshot(ctx context.Context, owner, id string) (snapshots.Snapshot, error) {
	return s.findSnapshot(ctx, " WHERE owner = ? AND id = ?", owner, id)
}

// FindSnapshot implements snapshots.Store.
func (s *Store) FindSnapshot(ctx context.Context, owner, key string) (snapshots.Snapshot, error) {
	return s.findSnapshot(ctx, " WHERE owner = ? AND idempotency_key = ? AND idempotency_key <> '' AND state <> ?", owner, key, string(snapshots.Deleting))
}

func (s *Store) findSnapshot(ctx context.Context, where string, args ...any) (snapshots.Snapshot, error) {
	found, err := scanSnapshot(s.read.QueryRowContext(ctx, snapshotSQL+where, args...))
	if errors.Is(err, sql.ErrNoRows) {
		return found, errdefs.New(errdefs.NotFound, "no such snapshot").Because(errdefs.NoSuchSnapshot)
	}
	if err != nil {
		return found, wrap("read a snapshot", err)
	}
	return found, nil
}

// SnapshotsOf implements snapshots.Store.
func (s *Store) SnapshotsOf(ctx context.Context, owner string) ([]snapshots.Snapshot, error) {
	return list(ctx, s, "list snapshots", scanSnapshot, snapshotSQL+" WHERE owner = ? ORDER BY created_at, id", owner)
}

// SnapshotsNamed implements snapshots.Store.
func (s *Store) SnapshotsNamed(ctx context.Context, owner, name string) ([]snapshots.Snapshot, error) {
	return list(ctx, s, "list snapshots", scanSnapshot, snapshotSQL+" WHERE owner = ? AND name = ? ORDER BY created_at, id", owner, name)
}

// AllSnapshots implements snapshots.Store.
func (s *Store) AllSnapshots(ctx context.Context) ([]snapshots.Snapshot, error) {
	return list(ctx, s, "list snapshots", scanSnapshot, snapshotSQL+" ORDER BY created_at, id")
}

// DeleteSnapshot implements snapshots.Store.
func (s *Store) DeleteSnapshot(ctx context.Context, id string) error {
	if _, err := s.execChange(ctx, "DELETE FROM snapshots WHERE id = ?", id); err != nil {
		return wrap("forget snapshot "+id, err)
	}
	return nil
}

// AbandonSnapshots implements snapshots.Store.
func (s *Store) AbandonSnapshots(ctx context.Context) error {
	if _, err := s.write.ExecContext(ctx, "UPDATE snapshots SET state = ? WHERE state = ?",
		string(snapshots.Deleting), string(snapshots.Creating)); err != nil {
		return wrap("give up snapshots", err)
	}
	return nil
}
