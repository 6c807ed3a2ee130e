package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/sandkasten/sandkasten/internal/history"
	"github.com/sandkasten/sandkasten/internal/session"
)

var _ history.Store = (*Store)(nil)

// historySQL makes the table of what sessions used over their lives. It is no migration,
// as clockSQL is none. at is in microseconds, step in seconds.
const historySQL = `CREATE TABLE IF NOT EXISTS session_history (
	session  TEXT NOT NULL,
	step     INTEGER NOT NULL,
	at       INTEGER NOT NULL,
	cpu_us   INTEGER NOT NULL,
	memory   INTEGER NOT NULL,
	disk     INTEGER NOT NULL,
	pids     INTEGER NOT NULL,
	sent     INTEGER NOT NULL,
	received INTEGER NOT NULL,
	PRIMARY KEY (session, step, at)
) STRICT, WITHOUT ROWID`

// hostHistorySQL makes the table of how full the host was. A sample is its JSON: nothing
// is looked for in it.
const hostHistorySQL = `CREATE TABLE IF NOT EXISTS host_history (
	step   INTEGER NOT NULL,
	at     INTEGER NOT NULL,
	sample TEXT NOT NULL,
	PRIMARY KEY (step, at)
) STRICT, WITHOUT ROWID`

func seconds(step history.Step) int64 { return int64(time.Duration(step) / time.Second) }

// AddHistory implements history.Store.
func (s *Store) AddHistory(ctx context.Context, rows []history.Row, before map[history.Step]time.Time, gone []session.ID) error {
	err := s.inPassing(ctx, func(tx *sql.Tx) error {
		of := map[session.ID]bool{}
		for _, r := range rows {
			of[r.Session] = true
			_, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO session_history VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
				r.Session, seconds(r.Step), micros(r.At), r.CPUUsageUsec, r.MemoryBytes, r.DiskBytes, r.Pids, r.SentBytes, r.ReceivedBytes)
			if err != nil {
				return err
			}
		}
		for id := range of {
			for step, at := range before {
				if _, err := tx.ExecContext(ctx, "DELETE FROM session_history WHERE session = ? AND step = ? AND at < ?", id, seconds(step), micros(at)); err != nil {
					return err
				}
			}
		}
		for _, id := range gone {
			if _, err := tx.ExecContext(ctx, "DELETE FROM session_history WHERE session = ?", id); err != nil {
				return err
			}
		}
		return nil
	})
	return wrapChange("write what sessions used", err)
}

func scanSample(row row) (h history.Sample, err error) {
	var at int64
	err = row.Scan(&at, &h.CPUUsageUsec, &h.MemoryBytes, &h.DiskBytes, &h.Pids, &h.SentBytes, &h.ReceivedBytes)
	h.At = instant(at)
	return h, err
}

// History implements history.Store.
func (s *Store) History(ctx context.Context, id session.ID, step history.Step, since time.Time) ([]history.Sample, error) {
	return list(ctx, s, "list what a session used", scanSample,
		"SELECT at, cpu_us, memory, disk, pids, sent, received FROM session_history WHERE session = ? AND step = ? AND at >= ? ORDER BY at", id, seconds(step), micros(since))
}

// HistorySessions implements history.Store.
func (s *Store) HistorySessions(ctx context.Context) ([]session.ID, error) {
	return list(ctx, s, "list the sessions that have a history", func(row row) (id session.ID, err error) { return id, row.Scan(&id) }, "SELECT DISTINCT session FROM session_history")
}

// AddHostHistory implements history.Store.
func (s *Store) AddHostHistory(ctx context.Context, rows []history.HostRow, before map[history.Step]time.Time) error {
	err := s.inPassing(ctx, func(tx *sql.Tx) error {
		for _, r := range rows {
			sample, err := json.Marshal(r.HostSample)
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO host_history VALUES (?, ?, ?)", seconds(r.Step), micros(r.At), string(sample)); err != nil {
				return err
			}
		}
		for step, at := range before {
			if _, err := tx.ExecContext(ctx, "DELETE FROM host_history WHERE step = ? AND at < ?", seconds(step), micros(at)); err != nil {
				return err
			}
		}
		return nil
	})
	return wrapChange("write how full the host was", err)
}

func scanHostSample(row row) (h history.HostSample, err error) {
	var at int64
	var sample []byte
	if err := row.Scan(&at, &sample); err != nil {
		return h, err
	}
	err = json.Unmarshal(sample, &h)
	h.At = instant(at) // as it is looked for
	return h, err
}

// HostHistory implements history.Store.
func (s *Store) HostHistory(ctx context.Context, step history.Step, since time.Time) ([]history.HostSample, error) {
	return list(ctx, s, "list how full the host was", scanHostSample,
		"SELECT at, sample FROM host_history WHERE step = ? AND at >= ? ORDER BY at", seconds(step), micros(since))
}
