package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/orchestrator"
	"github.com/sandkasten/sandkasten/internal/session"
)

var _ orchestrator.Store = (*Store)(nil)

// orchestratorSQL makes the table of the orchestrator's sessions. It is no
// migration, as clockSQL is none.
const orchestratorSQL = `CREATE TABLE IF NOT EXISTS orchestrator_sessions (
	id                 TEXT PRIMARY KEY,
	owner              TEXT NOT NULL,
	session_id         TEXT NOT NULL,
	mode               TEXT NOT NULL,
	image              TEXT NOT NULL,
	cpu                TEXT NOT NULL,
	memory             TEXT NOT NULL,
	ephemeral_storage  TEXT NOT NULL,
	idle_timeout       INTEGER NOT NULL,
	max_lifetime       INTEGER NOT NULL,
	metadata           TEXT NOT NULL,
	artifact_base_url  TEXT NOT NULL,
	status             TEXT NOT NULL,
	terminated_reason  TEXT NOT NULL,
	error_message      TEXT NOT NULL,
	restore_snapshot_id TEXT NOT NULL,
	latest_snapshot_id TEXT NOT NULL,
	bad_snapshot_ids   TEXT NOT NULL,
	cpu_seconds        REAL NOT NULL,
	storage_bytes      INTEGER NOT NULL,
	last_activity_at   INTEGER NOT NULL,
	last_heartbeat_at  INTEGER NOT NULL,
	expires_at         INTEGER NOT NULL,
	created_at         INTEGER NOT NULL,
	updated_at         INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS orchestrator_sessions_owner ON orchestrator_sessions (owner, created_at);
CREATE INDEX IF NOT EXISTS orchestrator_sessions_session ON orchestrator_sessions (session_id) WHERE session_id <> '';
CREATE INDEX IF NOT EXISTS orchestrator_sessions_live ON orchestrator_sessions (status) WHERE status IN ('starting', 'ready')`

// keepingSQL makes the table of what a session's row does not say: which snapshot is
// suspected of being bad, and since when its files are not saved. Earlier versions write rows without it, so it counts only for
// the sandbox, the status and the latest snapshot that it was written with.
const keepingSQL = `CREATE TABLE IF NOT EXISTS orchestrator_keeping (
	id                  TEXT PRIMARY KEY,
	of_session_id       TEXT NOT NULL,
	of_status           TEXT NOT NULL,
	of_snapshot_id      TEXT NOT NULL,
	suspect_snapshot_id TEXT NOT NULL,
	suspect_at          INTEGER NOT NULL,
	unsaved_at          INTEGER NOT NULL
) STRICT`

// orchestratedSQL selects what scanOrchestrated reads.
const orchestratedSQL = `SELECT s.id, owner, session_id, mode, image, cpu, memory, ephemeral_storage, idle_timeout, max_lifetime, metadata,
	artifact_base_url, status, terminated_reason, error_message, restore_snapshot_id, latest_snapshot_id, bad_snapshot_ids, cpu_seconds,
	storage_bytes, last_activity_at, last_heartbeat_at, expires_at, created_at, updated_at,
	coalesce(suspect_snapshot_id, ''), coalesce(suspect_at, 0), coalesce(unsaved_at, 0)
	FROM orchestrator_sessions s LEFT JOIN orchestrator_keeping k
	ON k.id = s.id AND of_session_id = session_id AND of_status = status AND of_snapshot_id = latest_snapshot_id`

func scanOrchestrated(row row) (orchestrator.Session, error) {
	var x orchestrator.Session
	var core, metadata, bad string
	var idle, lifetime, activity, heartbeat, expires, created, updated, suspect, unsaved int64
	err := row.Scan(&x.ID, &x.Owner, &core, &x.Mode, &x.Image, &x.CPU, &x.Memory, &x.EphemeralStorage, &idle, &lifetime, &metadata,
		&x.ArtifactBaseURL, &x.Status, &x.TerminatedReason, &x.Error, &x.RestoreSnapshot, &x.LatestSnapshot, &bad, &x.CPUSeconds,
		&x.StorageBytes, &activity, &heartbeat, &expires, &created, &updated, &x.Suspect, &suspect, &unsaved)
	if err != nil {
		return x, err
	}
	if err := errors.Join(json.Unmarshal([]byte(metadata), &x.Metadata), json.Unmarshal([]byte(bad), &x.BadSnapshots)); err != nil {
		return x, fmt.Errorf("decode session %s: %w", x.ID, err)
	}
	x.Core = session.ID(core)
	x.IdleTimeout, x.MaxLifetime = time.Duration(idle)*time.Microsecond, time.Duration(lifetime)*time.Microsecond
	x.LastActivity, x.LastHeartbeat, x.ExpiresAt = instant(activity), instant(heartbeat), instant(expires)
	x.CreatedAt, x.UpdatedAt = instant(created), instant(updated)
	if suspect > 0 {
		x.SuspectAt = instant(suspect)
	}
	if unsaved > 0 {
		x.UnsavedSince = instant(unsaved)
	}
	return x, nil
}

// PutOrchestrated implements orchestrator.Store. What was used later than the row
// knows stays so.
func (s *Store) PutOrchestrated(ctx context.Context, x orchestrator.Session) error {
	metadata, err := json.Marshal(x.Metadata)
	if err != nil {
		return fmt.Errorf("encode metadata: %w", err)
	}
	bad, err := json.Marshal(x.BadSnapshots)
	if err != nil {
		return fmt.Errorf("encode snapshots: %w", err)
	}
	err = s.together(ctx, func(tx *sql.Tx) error {
		if err := putKeeping(ctx, tx, x); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, putOrchestratedSQL,
			x.ID, x.Owner, string(x.Core), x.Mode, x.Image, x.CPU, x.Memory, x.EphemeralStorage, x.IdleTimeout.Microseconds(), x.MaxLifetime.Microseconds(),
			string(metadata), x.ArtifactBaseURL, string(x.Status), x.TerminatedReason, x.Error, x.RestoreSnapshot, x.LatestSnapshot, string(bad),
			x.CPUSeconds, x.StorageBytes, micros(x.LastActivity), micros(x.LastHeartbeat), micros(x.ExpiresAt), micros(x.CreatedAt), micros(x.UpdatedAt))
		return err
	})
	return wrapChange("write session "+x.ID, err)
}

const putOrchestratedSQL = `INSERT INTO orchestrator_sessions VALUES
	(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25)
	ON CONFLICT (id) DO UPDATE SET session_id = ?3, idle_timeout = ?9, max_lifetime = ?10, metadata = ?11, artifact_base_url = ?12,
		status = ?13, terminated_reason = ?14, error_message = ?15, restore_snapshot_id = ?16, latest_snapshot_id = ?17,
		bad_snapshot_ids = ?18, cpu_seconds = ?19, storage_bytes = ?20, last_activity_at = max(last_activity_at, ?21),
		last_heartbeat_at = max(last_heartbeat_at, ?22), expires_at = ?23, updated_at = ?25`

// putKeeping writes what a row does not say. Most rows have nothing of that.
func putKeeping(ctx context.Context, tx *sql.Tx, x orchestrator.Session) error {
	if x.Suspect == "" && !x.Unsaved() {
		_, err := tx.ExecContext(ctx, "DELETE FROM orchestrator_keeping WHERE id = ?", x.ID)
		return err
	}
	_, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO orchestrator_keeping VALUES (?, ?, ?, ?, ?, ?, ?)",
		x.ID, string(x.Core), string(x.Status), x.LatestSnapshot, x.Suspect, micros(x.SuspectAt), micros(x.UnsavedSince))
	return err
}

// GetOrchestrated implements orchestrator.Store.
func (s *Store) GetOrchestrated(ctx context.Context, ref string) (orchestrator.Session, error) {
	row := s.read.QueryRowContext(ctx, orchestratedSQL+" WHERE s.id = ?1 OR session_id = ?1 AND ?1 <> ''", ref)
	found, err := scanOrchestrated(row)
	if errors.Is(err, sql.ErrNoRows) {
		return found, errdefs.New(errdefs.NotFound, "no such session").Because(errdefs.NoSuchSession)
	}
	if err != nil {
		return found, wrap("read a session of the orchestrator", err)
	}
	return found, nil
}

// OrchestratedOf implements orchestrator.Store.
func (s *Store) OrchestratedOf(ctx context.Context, owner *string) ([]orchestrator.Session, error) {
	const newestFirst = " ORDER BY created_at DESC, s.id"
	if owner == nil {
		return list(ctx, s, "list sessions of the orchestrator", scanOrchestrated, orchestratedSQL+newestFirst)
	}
	return list(ctx, s, "list sessions of the orchestrator", scanOrchestrated, orchestratedSQL+" WHERE owner = ?"+newestFirst, *owner)
}

// LiveOrchestrated implements orchestrator.Store.
func (s *Store) LiveOrchestrated(ctx context.Context) ([]orchestrator.Session, error) {
	return list(ctx, s, "list sessions of the orchestrator", scanOrchestrated, orchestratedSQL+" WHERE status IN ('starting', 'ready') OR unsaved_at > 0")
}

// SeeOrchestrated implements orchestrator.Store.
func (s *Store) SeeOrchestrated(ctx context.Context, seen []orchestrator.Seen) error {
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return wrap("note use of sessions", err)
	}
	for _, one := range seen {
		_, err := tx.ExecContext(ctx, `UPDATE orchestrator_sessions SET last_activity_at = max(last_activity_at, ?2),
			last_heartbeat_at = max(last_heartbeat_at, ?3) WHERE id = ?1`, one.ID, micros(one.Activity), micros(one.Heartbeat))
		if err != nil {
			return wrap("note use of sessions", errors.Join(err, tx.Rollback()))
		}
	}
	if err := tx.Commit(); err != nil {
		return wrap("note use of sessions", err)
	}
	return nil
}
