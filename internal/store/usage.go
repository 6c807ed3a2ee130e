package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/sandkasten/sandkasten/internal/usage"
)

var _ usage.Store = (*Store)(nil)

// usageSQL makes the tables of what owners use: by month, of sessions that live, and
// when the meter worked last. It is no migration, as clockSQL is none.
const usageSQL = `CREATE TABLE IF NOT EXISTS usage (
	owner         TEXT NOT NULL,
	month         TEXT NOT NULL,
	session_us    INTEGER NOT NULL,
	cpu_us        INTEGER NOT NULL,
	sent          INTEGER NOT NULL,
	received      INTEGER NOT NULL,
	sessions      INTEGER NOT NULL,
	snapshot_peak INTEGER NOT NULL,
	PRIMARY KEY (month, owner)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS usage_days (
	owner       TEXT NOT NULL,
	day         TEXT NOT NULL,
	session_us  INTEGER NOT NULL,
	cpu_us      INTEGER NOT NULL,
	sent        INTEGER NOT NULL,
	received    INTEGER NOT NULL,
	sessions    INTEGER NOT NULL,
	memory_time INTEGER NOT NULL,
	PRIMARY KEY (day, owner)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS usage_spans (
	session TEXT NOT NULL PRIMARY KEY,
	owner   TEXT NOT NULL,
	began   INTEGER NOT NULL,
	cpu_us  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS usage_meter (
	one  INTEGER PRIMARY KEY CHECK (one = 1),
	seen INTEGER NOT NULL
) STRICT`

// UsageState implements usage.Store.
func (s *Store) UsageState(ctx context.Context) (usage.State, error) {
	var seen int64
	err := s.read.QueryRowContext(ctx, "SELECT seen FROM usage_meter").Scan(&seen)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return usage.State{}, wrap("read when usage was metered", err)
	}
	spans, err := list(ctx, s, "list the sessions that are metered", scanSpan, "SELECT session, owner, began, cpu_us FROM usage_spans")
	return usage.State{Seen: instant(seen), Spans: spans}, err
}

func scanSpan(row row) (span usage.Span, err error) {
	var began, cpu int64
	err = row.Scan(&span.Session, &span.Owner, &began, &cpu)
	span.Began, span.CPUTime = instant(began), time.Duration(cpu)*time.Microsecond
	return span, err
}

// used is what one owner used in a month.
type used struct {
	owner string
	usage.Amounts
}

func scanUsed(row row) (u used, err error) {
	var lived, cpu int64
	err = row.Scan(&u.owner, &lived, &cpu, &u.Sent, &u.Received, &u.Sessions, &u.SnapshotPeak)
	u.SessionTime, u.CPUTime = time.Duration(lived)*time.Microsecond, time.Duration(cpu)*time.Microsecond
	return u, err
}

// UsageOf implements usage.Store.
func (s *Store) UsageOf(ctx context.Context, month usage.Month, owner *string) (map[string]usage.Amounts, error) {
	query, args := "SELECT owner, session_us, cpu_us, sent, received, sessions, snapshot_peak FROM usage WHERE month = ?", []any{string(month)}
	if owner != nil {
		query += " AND owner = ?"
		args = append(args, *owner)
	}
	rows, err := list(ctx, s, "list what owners use", scanUsed, query, args...)
	if err != nil {
		return nil, err
	}
	all := make(map[string]usage.Amounts, len(rows))
	for _, u := range rows {
		all[u.owner] = u.Amounts
	}
	return all, nil
}

// AddUsage implements usage.Store.
func (s *Store) AddUsage(ctx context.Context, c usage.Changes) error {
	err := s.inPassing(ctx, func(tx *sql.Tx) error {
		for k, a := range c.Amounts {
			_, err := tx.ExecContext(ctx, `INSERT INTO usage (owner, month, session_us, cpu_us, sent, received, sessions, snapshot_peak)
				VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (month, owner) DO UPDATE SET
				session_us = session_us + ?3, cpu_us = cpu_us + ?4, sent = sent + ?5, received = received + ?6,
				sessions = sessions + ?7, snapshot_peak = max(snapshot_peak, ?8)`,
				k.Owner, string(k.Month), a.SessionTime.Microseconds(), a.CPUTime.Microseconds(), a.Sent, a.Received, a.Sessions, a.SnapshotPeak)
			if err != nil {
				return err
			}
		}
		if err := addDays(ctx, tx, c); err != nil {
			return err
		}
		for _, id := range c.Closed { // before the spans: a session may live again
			if _, err := tx.ExecContext(ctx, "DELETE FROM usage_spans WHERE session = ?", id); err != nil {
				return err
			}
		}
		for _, span := range c.Spans {
			_, err := tx.ExecContext(ctx, `INSERT INTO usage_spans (session, owner, began, cpu_us) VALUES (?1, ?2, ?3, ?4)
				ON CONFLICT (session) DO UPDATE SET began = ?3, cpu_us = ?4`, span.Session, span.Owner, micros(span.Began), span.CPUTime.Microseconds())
			if err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO usage_meter (one, seen) VALUES (1, ?1) ON CONFLICT (one) DO UPDATE SET seen = ?1", micros(c.Seen))
		return err
	})
	return wrapChange("write what owners use", err)
}

// addDays adds to what was used on days, and forgets what is too old.
func addDays(ctx context.Context, tx *sql.Tx, c usage.Changes) error {
	for k, a := range c.Days {
		_, err := tx.ExecContext(ctx, `INSERT INTO usage_days (owner, day, session_us, cpu_us, sent, received, sessions, memory_time)
			VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (day, owner) DO UPDATE SET
			session_us = session_us + ?3, cpu_us = cpu_us + ?4, sent = sent + ?5, received = received + ?6,
			sessions = sessions + ?7, memory_time = memory_time + ?8`,
			k.Owner, string(k.Day), a.SessionTime.Microseconds(), a.CPUTime.Microseconds(), a.Sent, a.Received, a.Sessions, a.MemoryTime)
		if err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, "DELETE FROM usage_days WHERE day < ?", string(usage.DayOf(c.Seen.Add(-usage.DaysKept))))
	return err
}

// UsageDays implements usage.Store.
func (s *Store) UsageDays(ctx context.Context, from, to usage.Day, owner *string) ([]usage.DayUsage, error) {
	scan := func(row row) (u usage.DayUsage, err error) {
		var lived, cpu int64
		err = row.Scan(&u.Owner, &u.Day, &lived, &cpu, &u.Sent, &u.Received, &u.Sessions, &u.MemoryTime)
		u.SessionTime, u.CPUTime = time.Duration(lived)*time.Microsecond, time.Duration(cpu)*time.Microsecond
		return u, err
	}
	query, args := "SELECT owner, day, session_us, cpu_us, sent, received, sessions, memory_time FROM usage_days WHERE day BETWEEN ? AND ?", []any{string(from), string(to)}
	if owner != nil {
		query += " AND owner = ?"
		args = append(args, *owner)
	}
	return list(ctx, s, "list what owners used by day", scan, query, args...)
}

// ForgetUsage implements usage.Store.
func (s *Store) ForgetUsage(ctx context.Context, owner string) error {
	err := s.together(ctx, func(tx *sql.Tx) error {
		for _, table := range []string{"usage", "usage_days"} {
			if _, err := tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE owner = ?", owner); err != nil {
				return err
			}
		}
		return nil
	})
	return wrapChange("forget what an owner used", err)
}

// SnapshotBytes implements usage.Store.
func (s *Store) SnapshotBytes(ctx context.Context, owner *string) (map[string]int64, error) {
	type total struct {
		owner string
		bytes int64
	}
	scan := func(row row) (t total, err error) {
		err = row.Scan(&t.owner, &t.bytes)
		return t, err
	}
	query, args := "SELECT owner, sum(size) FROM snapshots", []any{}
	if owner != nil {
		query += " WHERE owner = ?"
		args = append(args, *owner)
	}
	rows, err := list(ctx, s, "measure snapshots", scan, query+" GROUP BY owner", args...)
	if err != nil {
		return nil, err
	}
	all := make(map[string]int64, len(rows))
	for _, t := range rows {
		all[t.owner] = t.bytes
	}
	return all, nil
}

// WorkspacesHeld implements usage.Store.
func (s *Store) WorkspacesHeld(ctx context.Context, owner string) (count int, sizeMB int64, err error) {
	err = s.read.QueryRowContext(ctx, "SELECT count(*), coalesce(sum(size_mb), 0) FROM workspaces WHERE owner = ?", owner).Scan(&count, &sizeMB)
	return count, sizeMB, wrapChange("count the workspaces of an owner", err)
}
