package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/orchestrator/artifacts"
)

var _ artifacts.Store = (*Store)(nil)

// artifactsSQL makes the table of the orchestrator's artifacts. It is no migration, as
// clockSQL is none.
const artifactsSQL = `CREATE TABLE IF NOT EXISTS orchestrator_artifacts (
	id           TEXT NOT NULL PRIMARY KEY,
	owner        TEXT NOT NULL,
	session_id   TEXT NOT NULL,
	filename     TEXT NOT NULL,
	content_type TEXT NOT NULL,
	size         INTEGER NOT NULL,
	storage_path TEXT NOT NULL,
	sha256       TEXT NOT NULL,
	state        TEXT NOT NULL,
	created_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS orchestrator_artifacts_content ON orchestrator_artifacts (owner, sha256, size);
CREATE INDEX IF NOT EXISTS orchestrator_artifacts_session ON orchestrator_artifacts (session_id, state, created_at);
CREATE INDEX IF NOT EXISTS orchestrator_artifacts_state ON orchestrator_artifacts (state, created_at)`

// artifactSQL selects what scanArtifact reads.
const artifactSQL = "SELECT id, owner, session_id, filename, content_type, size, storage_path, sha256, state, created_at FROM orchestrator_artifacts"

func scanArtifact(row row) (a artifacts.Artifact, err error) {
	var created int64
	err = row.Scan(&a.ID, &a.Owner, &a.SessionID, &a.Filename, &a.ContentType, &a.Size, &a.StoragePath, &a.SHA256, &a.State, &created)
	a.CreatedAt = instant(created)
	return a, err
}

// whereSelected is the condition of a Selection, and its values.
func whereSelected(sel artifacts.Selection) (where string, args []any) {
	where = " WHERE 1"
	add := func(condition string, value any) { where, args = where+" AND "+condition, append(args, value) }
	if sel.ID != "" {
		add("id = ?", sel.ID)
	}
	if sel.Owner != "" {
		add("owner = ?", sel.Owner)
	}
	if sel.SessionID != "" {
		add("session_id = ?", sel.SessionID)
	}
	if sel.State != "" {
		add("state = ?", string(sel.State))
	}
	if !sel.Before.IsZero() {
		add("created_at < ?", micros(sel.Before))
	}
	return where, args
}

// AddArtifact implements artifacts.Store.
func (s *Store) AddArtifact(ctx context.Context, a artifacts.Artifact, most int64, count int) error {
	result, err := s.write.ExecContext(ctx, `INSERT INTO orchestrator_artifacts
		SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10
		WHERE (?11 = 0 OR EXISTS (SELECT 1 FROM orchestrator_artifacts WHERE owner = ?2 AND sha256 = ?8)
			OR ?6 + (SELECT coalesce(sum(size), 0) FROM (SELECT DISTINCT sha256, size FROM orchestrator_artifacts WHERE owner = ?2)) <= ?11)
		AND (?12 = 0 OR (SELECT count(*) FROM orchestrator_artifacts WHERE owner = ?2) < ?12)`,
		a.ID, a.Owner, a.SessionID, a.Filename, a.ContentType, a.Size, a.StoragePath, a.SHA256, string(a.State), micros(a.CreatedAt), most, count)
	if err != nil {
		return wrap("write artifact "+a.ID, err)
	}
	if n, err := result.RowsAffected(); err != nil || n > 0 {
		return err
	}
	var have int
	if err := s.read.QueryRowContext(ctx, "SELECT count(*) FROM orchestrator_artifacts WHERE owner = ?", a.Owner).Scan(&have); err != nil {
		return wrap("count artifacts", err)
	}
	if count > 0 && have >= count {
		return errdefs.New(errdefs.ResourceExhausted, "the maximum of %d artifacts for one owner is reached; older ones go with their sessions", count)
	}
	return errdefs.New(errdefs.InsufficientSpace,
		"the artifacts of this owner would have more than %d MiB (orchestrator.artifact_quota_mb); older ones go with their sessions and by age", most>>20)
}

// ReadyArtifact implements artifacts.Store.
func (s *Store) ReadyArtifact(ctx context.Context, id string) error {
	result, err := s.execChange(ctx, "UPDATE orchestrator_artifacts SET state = ? WHERE id = ? AND state = ?", string(artifacts.Ready), id, string(artifacts.Creating))
	if err != nil {
		return wrap("write artifact "+id, err)
	}
	if n, err := result.RowsAffected(); err != nil || n > 0 {
		return err
	}
	return errNoArtifact() // it was removed with its session or owner meanwhile
}

func errNoArtifact() error { return errdefs.New(errdefs.NotFound, "no such artifact") }

// GetArtifact implements artifacts.Store.
func (s *Store) GetArtifact(ctx context.Context, id string) (artifacts.Artifact, error) {
	found, err := scanArtifact(s.read.QueryRowContext(ctx, artifactSQL+" WHERE id = ? AND state = ?", id, string(artifacts.Ready)))
	if errors.Is(err, sql.ErrNoRows) {
		return found, errNoArtifact()
	}
	return found, wrapChange("read an artifact", err)
}

// ArtifactsOf implements artifacts.Store.
func (s *Store) ArtifactsOf(ctx context.Context, sessionID string) ([]artifacts.Artifact, error) {
	return list(ctx, s, "list artifacts", scanArtifact, artifactSQL+" WHERE session_id = ? AND state = ? ORDER BY created_at DESC, id",
		sessionID, string(artifacts.Ready))
}

// CountArtifacts implements artifacts.Store.
func (s *Store) CountArtifacts(ctx context.Context, sel artifacts.Selection) (map[string]int, error) {
	type count struct {
		session string
		n       int
	}
	sel.State = artifacts.Ready
	where, args := whereSelected(sel)
	counts, err := list(ctx, s, "count artifacts", func(row row) (c count, err error) {
		return c, row.Scan(&c.session, &c.n)
	}, "SELECT session_id, count(*) FROM orchestrator_artifacts"+where+" GROUP BY session_id", args...)
	all := make(map[string]int, len(counts))
	for _, c := range counts {
		all[c.session] = c.n
	}
	return all, err
}

// HasContent implements artifacts.Store.
func (s *Store) HasContent(ctx context.Context, owner, sha256 string, states ...artifacts.State) (there bool, err error) {
	text, err := json.Marshal(states)
	if err != nil {
		return false, fmt.Errorf("encode states: %w", err)
	}
	err = s.read.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM orchestrator_artifacts WHERE owner = ? AND sha256 = ?
		AND state IN (SELECT value FROM json_each(?)))`, owner, sha256, string(text)).Scan(&there)
	return there, wrapChange("look for an artifact's content", err)
}

// DropArtifacts implements artifacts.Store.
func (s *Store) DropArtifacts(ctx context.Context, sel artifacts.Selection) error {
	where, args := whereSelected(sel)
	_, err := s.execChange(ctx, "UPDATE orchestrator_artifacts SET state = 'deleting'"+where, args...)
	return wrapChange("drop artifacts", err)
}

// DroppedArtifacts implements artifacts.Store.
func (s *Store) DroppedArtifacts(ctx context.Context, sel artifacts.Selection) ([]artifacts.Artifact, error) {
	sel.State = artifacts.Deleting
	where, args := whereSelected(sel)
	return list(ctx, s, "list artifacts", scanArtifact, artifactSQL+where+" ORDER BY created_at, id", args...)
}

// DeleteArtifact implements artifacts.Store.
func (s *Store) DeleteArtifact(ctx context.Context, id string) error {
	_, err := s.execChange(ctx, "DELETE FROM orchestrator_artifacts WHERE id = ?", id)
	return wrapChange("forget artifact "+id, err)
}

// RemoveOrchestrated forgets the orchestrator's sessions of an owner, and drops their
// artifacts.
func (s *Store) RemoveOrchestrated(ctx context.Context, owner string) error {
	err := s.together(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "UPDATE orchestrator_artifacts SET state = ? WHERE owner = ?", string(artifacts.Deleting), owner); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM orchestrator_keeping WHERE id IN (SELECT id FROM orchestrator_sessions WHERE owner = ?)", owner); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "DELETE FROM orchestrator_sessions WHERE owner = ?", owner)
		return err
	})
	return wrapChange("forget the orchestrator's sessions of "+owner, err)
}

// EndedOrchestrated implements orchestrator.Store.
func (s *Store) EndedOrchestrated(ctx context.Context, before time.Time) ([]string, error) {
	return s.endedOrchestrated(ctx, before, "true")
}

// EmptyOrchestrated implements orchestrator.Store.
func (s *Store) EmptyOrchestrated(ctx context.Context, before time.Time) ([]string, error) {
	return s.endedOrchestrated(ctx, before, `NOT EXISTS (SELECT 1 FROM snapshots s WHERE s.owner = x.owner AND s.name = x.id)
		AND NOT EXISTS (SELECT 1 FROM orchestrator_artifacts a WHERE a.session_id = x.id)`)
}

// endedOrchestrated returns the oldest sessions x that ended before a time and meet a condition.
func (s *Store) endedOrchestrated(ctx context.Context, before time.Time, condition string) ([]string, error) {
	return list(ctx, s, "list sessions of the orchestrator that ended", func(row row) (id string, err error) {
		return id, row.Scan(&id)
	}, `SELECT x.id FROM orchestrator_sessions x WHERE x.status IN ('failed', 'terminated') AND x.updated_at < ?
		AND x.id NOT IN (SELECT id FROM orchestrator_keeping WHERE unsaved_at > 0) AND `+condition+" ORDER BY x.updated_at LIMIT 1000", micros(before))
}

// DeleteOrchestrated implements orchestrator.Store.
func (s *Store) DeleteOrchestrated(ctx context.Context, id string) error {
	err := s.together(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "DELETE FROM orchestrator_keeping WHERE id = ?", id); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "DELETE FROM orchestrator_sessions WHERE id = ?", id)
		return err
	})
	return wrapChange("forget session "+id, err)
}
