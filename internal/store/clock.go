package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/sandkasten/sandkasten/internal/clock"
)

// leastJump is the difference of clocks from which on times are rewritten.
const leastJump = time.Second

var _ clock.Rows = (*Store)(nil)

// Align implements clock.Rows.
func (s *Store) Align(ctx context.Context, r clock.Reading) (jumped time.Duration, err error) {
	// It is asked often, and has something to write seldom.
	noted, err := lastClock(s.read.QueryRowContext(ctx, lastClockSQL))
	if err != nil {
		return 0, wrap("compare the clocks", err)
	}
	if noted.Boot == r.Boot && (r.Offset-noted.Offset).Abs() < leastJump {
		return 0, nil
	}
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return 0, wrap("compare the clocks", err)
	}
	jumped, err = align(ctx, tx, r)
	if err != nil {
		return 0, wrap("compare the clocks", errors.Join(err, tx.Rollback()))
	}
	if err := tx.Commit(); err != nil {
		return 0, wrap("compare the clocks", err)
	}
	return jumped, nil
}

// clockSQL makes the table of one row: between which clocks the times of the other
// tables were told, boot being the kernel's name for its run and offset_us what the
// wall clock was ahead of the time since then. It is no migration: a version that
// has none of it would refuse the database, and it is nothing to that.
const clockSQL = `CREATE TABLE IF NOT EXISTS clock (
	one       INTEGER PRIMARY KEY CHECK (one = 1),
	boot      TEXT NOT NULL,
	offset_us INTEGER NOT NULL
) STRICT`

const lastClockSQL = "SELECT boot, offset_us FROM clock"

// lastClock is empty if there is none.
func lastClock(row row) (r clock.Reading, err error) {
	var offset int64
	if err := row.Scan(&r.Boot, &offset); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return r, err
	}
	r.Offset = time.Duration(offset) * time.Microsecond
	return r, nil
}

func align(ctx context.Context, tx *sql.Tx, r clock.Reading) (jumped time.Duration, err error) {
	noted, err := lastClock(tx.QueryRowContext(ctx, lastClockSQL))
	if err != nil {
		return 0, err
	}
	// After another boot nothing is known of how long the host was off.
	if noted.Boot == r.Boot {
		jumped = r.Offset - noted.Offset
		// What was written between the jump and now is not to come to lie in the future.
		now := time.Now().UnixMicro()
		for _, update := range []string{
			"UPDATE sessions SET created_at = min(created_at + ?1, ?2), last_activity = min(last_activity + ?1, ?2), ended_at = iif(ended_at = 0, 0, min(ended_at + ?1, ?2))",
			"UPDATE workspaces SET created_at = min(created_at + ?1, ?2), last_used = min(last_used + ?1, ?2)",
			"UPDATE snapshots SET created_at = min(created_at + ?1, ?2)",
			"UPDATE usage_spans SET began = iif(began = 0, 0, min(began + ?1, ?2))",
			"UPDATE usage_meter SET seen = min(seen + ?1, ?2)",
			`UPDATE orchestrator_sessions SET created_at = min(created_at + ?1, ?2), updated_at = min(updated_at + ?1, ?2),
				last_activity_at = iif(last_activity_at = 0, 0, min(last_activity_at + ?1, ?2)),
				last_heartbeat_at = iif(last_heartbeat_at = 0, 0, min(last_heartbeat_at + ?1, ?2)), expires_at = iif(expires_at = 0, 0, expires_at + ?1)`,
			"UPDATE orchestrator_keeping SET suspect_at = iif(suspect_at = 0, 0, min(suspect_at + ?1, ?2)), unsaved_at = iif(unsaved_at = 0, 0, min(unsaved_at + ?1, ?2))",
			"UPDATE orchestrator_artifacts SET created_at = min(created_at + ?1, ?2)",
			"UPDATE scope_completions SET due = due + ?1",
			"UPDATE secrets SET created_at = min(created_at + ?1, ?2), updated_at = min(updated_at + ?1, ?2)",
		} {
			if _, err := tx.ExecContext(ctx, update, jumped.Microseconds(), now); err != nil {
				return 0, err
			}
		}
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO clock (one, boot, offset_us) VALUES (1, ?1, ?2) ON CONFLICT (one) DO UPDATE SET boot = ?1, offset_us = ?2", r.Boot, r.Offset.Microseconds())
	return jumped, err
}
