package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	sqlite "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/networks"
)

var _ session.Store = (*Store)(nil)

// columns are in the order of values and scan.
const columns = `id, sandbox, image, image_digest, state, end_state, end_reason, workspace_id, cwd, hostname,
	cpu, memory_mb, pids, disk_mb, network, readonly_root, labels, owner, idempotency_key, request_hash,
	created_at, last_activity, ttl_us, max_lifetime_us, ended_at, boot_id, idle_timeout_us, on_idle, auto_resume, helper, forked_from, name, file_scope, on_expiry, by_hand`

// expirySQL adds columns of sessions that a version before does not know, and leaves alone:
// so it is no migration, behind which there would be no way back. Sessions that are there end
// as they were told, and make no room for others, whoever stopped them.
const expirySQL = `ALTER TABLE sessions ADD COLUMN on_expiry TEXT NOT NULL DEFAULT 'destroy';
ALTER TABLE sessions ADD COLUMN by_hand INTEGER NOT NULL DEFAULT 1;
CREATE INDEX IF NOT EXISTS sessions_named ON sessions (owner, name) WHERE name <> ''`

func hasExpiry(ctx context.Context, db *sql.DB) (there bool, err error) {
	err = db.QueryRowContext(ctx, "SELECT count(*) = 2 FROM pragma_table_info('sessions') WHERE name IN ('on_expiry', 'by_hand')").Scan(&there)
	return there, err
}

// addExpiry adds the columns of expirySQL, if they are not there: both or none.
func addExpiry(ctx context.Context, db *sql.DB) error {
	there, err := hasExpiry(ctx, db)
	if err != nil || there {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, expirySQL); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// What is selected beside the columns: what a session may reach, or nothing in a
// database that no daemon of this version has opened yet.
const (
	withNetwork    = columns + ", coalesce((SELECT public FROM networks WHERE session = sessions.id), '')"
	withoutNetwork = columns + ", ''"
)

// putSQL leaves last_activity and cwd of an existing row to Touch where that
// knows better.
var putSQL = `INSERT INTO sessions (` + columns + `) VALUES (` + strings.Repeat("?, ", strings.Count(columns, ",")) + `?)
	ON CONFLICT (id) DO UPDATE SET
		sandbox = excluded.sandbox, image_digest = excluded.image_digest, state = excluded.state,
		end_state = excluded.end_state, end_reason = excluded.end_reason, cwd = excluded.cwd,
		last_activity = max(last_activity, excluded.last_activity), ttl_us = excluded.ttl_us,
		max_lifetime_us = excluded.max_lifetime_us, labels = excluded.labels, ended_at = excluded.ended_at,
		boot_id = excluded.boot_id, idle_timeout_us = excluded.idle_timeout_us, on_idle = excluded.on_idle,
		auto_resume = excluded.auto_resume, on_expiry = excluded.on_expiry, by_hand = excluded.by_hand`

func values(s session.Session) ([]any, error) {
	labels, err := json.Marshal(s.Labels)
	if err != nil {
		return nil, fmt.Errorf("encode labels: %w", err)
	}
	return []any{
		string(s.ID), string(s.Sandbox), s.Image, s.ImageDigest, string(s.State), string(s.End), s.EndReason, s.WorkspaceID, s.Cwd, s.Hostname,
		s.Limits.CPU, s.Limits.MemoryMB, s.Limits.Pids, s.Limits.DiskMB, string(s.Network.Mode), s.ReadonlyRoot, string(labels), s.Owner, s.IdempotencyKey, s.RequestHash,
		micros(s.CreatedAt), micros(s.LastActivity), s.TTL.Microseconds(), s.MaxLifetime.Microseconds(), micros(s.EndedAt),
		s.BootID, s.IdleTimeout.Microseconds(), string(s.OnIdle), s.AutoResume, s.Helper, string(s.ForkedFrom), s.Name, string(s.FileScope), string(s.OnExpiry), s.ByHand,
	}, nil
}

func scan(row row) (session.Session, error) {
	var s session.Session
	var labels, reach string
	var created, active, ttl, lifetime, ended, idle int64
	err := row.Scan(
		&s.ID, &s.Sandbox, &s.Image, &s.ImageDigest, &s.State, &s.End, &s.EndReason, &s.WorkspaceID, &s.Cwd, &s.Hostname,
		&s.Limits.CPU, &s.Limits.MemoryMB, &s.Limits.Pids, &s.Limits.DiskMB, &s.Network.Mode, &s.ReadonlyRoot, &labels, &s.Owner, &s.IdempotencyKey, &s.RequestHash,
		&created, &active, &ttl, &lifetime, &ended,
		&s.BootID, &idle, &s.OnIdle, &s.AutoResume, &s.Helper, &s.ForkedFrom, &s.Name, &s.FileScope, &s.OnExpiry, &s.ByHand,
		&reach,
	)
	if err != nil {
		return session.Session{}, err
	}
	if err := json.Unmarshal([]byte(labels), &s.Labels); err != nil {
		return session.Session{}, fmt.Errorf("decode labels of session %s: %w", s.ID, err)
	}
	if s.NetworkPolicy, err = networks.Parse([]byte(reach)); err != nil {
		return session.Session{}, fmt.Errorf("decode the network of session %s: %w", s.ID, err)
	}
	s.CreatedAt, s.LastActivity, s.EndedAt = instant(created), instant(active), instant(ended)
	s.TTL, s.MaxLifetime = time.Duration(ttl)*time.Microsecond, time.Duration(lifetime)*time.Microsecond
	s.IdleTimeout = time.Duration(idle) * time.Microsecond
	return s, nil
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func instant(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// Put implements session.Store.
func (s *Store) Put(ctx context.Context, x session.Session) error {
	v, err := values(x)
	if err != nil {
		return err
	}
	if _, err := s.change(func() (sql.Result, error) { return s.put.ExecContext(ctx, v...) }); err != nil {
		if e, ok := errors.AsType[*sqlite.Error](err); ok && e.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE {
			return errdefs.Wrap(err, errdefs.AlreadyExists, "this Idempotency-Key is in use")
		}
		return wrap("write session "+string(x.ID), err)
	}
	return nil
}

// Get implements session.Store.
func (s *Store) Get(ctx context.Context, id session.ID) (session.Session, error) {
	return found(scan(s.get.QueryRowContext(ctx, string(id))))
}

// GetOwned implements session.Store.
func (s *Store) GetOwned(ctx context.Context, owner string, id session.ID) (session.Session, error) {
	return found(scan(s.read.QueryRowContext(ctx, "SELECT "+s.selected+" FROM sessions WHERE id = ? AND owner = ?", string(id), owner)))
}

func found(x session.Session, err error) (session.Session, error) {
	if errors.Is(err, sql.ErrNoRows) {
		return x, session.ErrNoSession()
	}
	if err != nil {
		return x, wrap("read a session", err)
	}
	return x, nil
}

// FindKey implements session.Store.
func (s *Store) FindKey(ctx context.Context, owner, key string) (session.Session, error) {
	x, err := scan(s.read.QueryRowContext(ctx, "SELECT "+s.selected+` FROM sessions
		WHERE owner = ? AND idempotency_key = ? AND idempotency_key <> '' AND state <> 'failed'`, owner, key))
	if errors.Is(err, sql.ErrNoRows) {
		return x, errdefs.New(errdefs.NotFound, "no session has this Idempotency-Key")
	}
	if err != nil {
		return x, wrap("find a session by its key", err)
	}
	return x, nil
}

// LastNamed implements session.Store.
func (s *Store) LastNamed(ctx context.Context, owner, name string) (session.Session, error) {
	return found(scan(s.read.QueryRowContext(ctx, "SELECT "+s.selected+` FROM sessions
		WHERE owner = ? AND name = ? AND name <> '' AND ended_at <> 0 ORDER BY ended_at DESC LIMIT 1`, owner, name)))
}

// List implements session.Store.
func (s *Store) List(ctx context.Context, filter session.ListFilter) ([]session.Session, error) {
	where, args := " FROM sessions WHERE true", []any{}
	if !filter.IncludeEnded {
		where += " AND ended_at = 0"
	}
	if !filter.Helpers {
		where += " AND NOT helper"
	}
	if filter.Owner != nil {
		where += " AND owner = ?"
		args = append(args, *filter.Owner)
	}
	if filter.IncludeEnded && filter.Ended.Most > 0 {
		return s.listEnded(ctx, where, args, filter.Ended)
	}
	return list(ctx, s, "list sessions", scan, "SELECT "+s.selected+where+" ORDER BY created_at, id", args...)
}

// readAtOnce is how many rows are read to find those that a page takes.
const readAtOnce = 100

// listEnded sorts the IDs of rows, and reads these until the page is full.
func (s *Store) listEnded(ctx context.Context, where string, args []any, page session.EndedPage) ([]session.Session, error) {
	way, beyond := "", ">"
	if page.Down {
		way, beyond = " DESC", "<"
	}
	query := "SELECT id" + where + " AND ended_at <> 0"
	if page.After != "" {
		query += fmt.Sprintf(" AND (%s, id) %s (?, ?)", page.By, beyond)
		args = append(args, page.At, string(page.After))
	}
	query += fmt.Sprintf(" ORDER BY %s%s, id%s", page.By, way, way)
	ids, err := list(ctx, s, "list sessions that ended", scanID, query, args...)
	if err != nil {
		return nil, err
	}
	var taken []session.Session
	for some := range slices.Chunk(ids, readAtOnce) {
		marks := strings.TrimSuffix(strings.Repeat("?, ", len(some)), ", ")
		rows, err := list(ctx, s, "list sessions that ended", scan, "SELECT "+s.selected+" FROM sessions WHERE id IN ("+marks+")", some...)
		if err != nil {
			return nil, err
		}
		slices.SortFunc(rows, func(a, b session.Session) int {
			return cmp.Compare(slices.Index(some, any(string(a.ID))), slices.Index(some, any(string(b.ID))))
		})
		for _, row := range rows {
			if !page.Takes(row) {
				continue
			}
			if taken = append(taken, row); len(taken) == page.Most {
				return taken, nil
			}
		}
	}
	return taken, nil
}

func scanID(r row) (id any, err error) {
	var text string
	err = r.Scan(&text)
	return text, err
}

// Touch implements session.Store.
func (s *Store) Touch(ctx context.Context, activity []session.Activity) error {
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return wrap("record activity", err)
	}
	if err := touch(ctx, tx, activity); err != nil {
		return wrap("record activity", errors.Join(err, tx.Rollback()))
	}
	if err := tx.Commit(); err != nil {
		return wrap("record activity", err)
	}
	return nil
}

func touch(ctx context.Context, tx *sql.Tx, activity []session.Activity) (err error) {
	update, err := tx.PrepareContext(ctx, "UPDATE sessions SET last_activity = max(last_activity, ?), cwd = ? WHERE id = ?")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, update.Close()) }()
	for _, a := range activity {
		if _, err := update.ExecContext(ctx, micros(a.At), a.Cwd, string(a.ID)); err != nil {
			return err
		}
	}
	return nil
}

// Prune implements session.Store.
func (s *Store) Prune(ctx context.Context, endedBefore time.Time, most int) (int64, error) {
	result, err := s.write.ExecContext(ctx, `DELETE FROM sessions WHERE ended_at <> 0 AND (ended_at < ? OR id IN (
		SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY owner ORDER BY ended_at DESC, id) AS place FROM sessions WHERE ended_at <> 0)
		WHERE place > ?))`, micros(endedBefore), most)
	if err != nil {
		return 0, wrap("forget ended sessions", err)
	}
	if _, err := s.write.ExecContext(ctx, pruneNetworks); err != nil {
		return 0, wrap("forget the networks of ended sessions", err)
	}
	return result.RowsAffected()
}

// ForgetEnded forgets the sessions of an owner that have ended, and their networks: whoever
// has the owner's name next is somebody else.
func (s *Store) ForgetEnded(ctx context.Context, owner string) error {
	err := s.together(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "DELETE FROM sessions WHERE owner = ? AND ended_at <> 0", owner); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, pruneNetworks)
		return err
	})
	return wrapChange("forget the ended sessions of an owner", err)
}
