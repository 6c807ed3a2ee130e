package store

import (
	"context"
	"database/sql"

	"github.com/sandkasten/sandkasten/internal/accounts/inspections"
)

var _ inspections.Store = (*Store)(nil)

// inspectionsSQL makes the table of who looked into what others have. It is no
// migration, as clockSQL is none.
const inspectionsSQL = `CREATE TABLE IF NOT EXISTS inspections (
	owner    TEXT NOT NULL,
	who      TEXT NOT NULL,
	what     TEXT NOT NULL,
	session  TEXT NOT NULL,
	day      TEXT NOT NULL,
	first_at INTEGER NOT NULL,
	last_at  INTEGER NOT NULL,
	PRIMARY KEY (owner, who, what, session, day)
) STRICT, WITHOUT ROWID`

// PutInspection implements inspections.Store.
func (s *Store) PutInspection(ctx context.Context, i inspections.Inspection) error {
	err := s.together(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM inspections WHERE owner = ? AND last_at < ?", i.Owner, micros(i.Last.Add(-inspections.Kept)))
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO inspections (owner, who, what, session, day, first_at, last_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
			ON CONFLICT (owner, who, what, session, day) DO UPDATE SET last_at = max(last_at, ?7)`,
			i.Owner, i.By, i.What, i.Session, i.Day, micros(i.First), micros(i.Last))
		return err
	})
	return wrapChange("write who looked into what "+i.Owner+" has", err)
}

// InspectionsOf implements inspections.Store.
func (s *Store) InspectionsOf(ctx context.Context, owner string, limit int) ([]inspections.Inspection, error) {
	scan := func(row row) (i inspections.Inspection, err error) {
		var first, last int64
		err = row.Scan(&i.Owner, &i.By, &i.What, &i.Session, &i.Day, &first, &last)
		i.First, i.Last = instant(first), instant(last)
		return i, err
	}
	return list(ctx, s, "list who looked into what "+owner+" has", scan,
		"SELECT owner, who, what, session, day, first_at, last_at FROM inspections WHERE owner = ? ORDER BY last_at DESC, who, session, what LIMIT ?", owner, limit)
}

// ForgetInspections implements inspections.Store.
func (s *Store) ForgetInspections(ctx context.Context, owner string) error {
	_, err := s.execChange(ctx, "DELETE FROM inspections WHERE owner = ?", owner)
	return wrapChange("forget who looked into what an owner has", err)
}
