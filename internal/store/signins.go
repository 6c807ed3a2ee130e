package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sandkasten/sandkasten/internal/accounts/browser"
)

var _ browser.Store = (*Store)(nil)

// signInsSQL makes the table of browsers in which somebody has signed in. It is no
// migration, as clockSQL is none.
const signInsSQL = `CREATE TABLE IF NOT EXISTS sign_ins (
	id         TEXT NOT NULL PRIMARY KEY,
	hash       BLOB NOT NULL UNIQUE,
	owner      TEXT NOT NULL,
	user_id    TEXT NOT NULL,
	stamp      BLOB NOT NULL,
	key_hash   BLOB NOT NULL,
	created_at INTEGER NOT NULL,
	last_used  INTEGER NOT NULL
) STRICT, WITHOUT ROWID`

// SignIns implements browser.Store.
func (s *Store) SignIns(ctx context.Context) ([]browser.SignIn, error) {
	return list(ctx, s, "list sign-ins", scanSignIn, "SELECT id, hash, owner, user_id, stamp, key_hash, created_at, last_used FROM sign_ins ORDER BY id")
}

func scanSignIn(row row) (one browser.SignIn, err error) {
	var hash, stamp, key []byte
	var created, used int64
	if err := row.Scan(&one.ID, &hash, &one.Owner, &one.UserID, &stamp, &key, &created, &used); err != nil {
		return one, err
	}
	if len(hash) != len(one.Hash) || len(stamp) != len(one.Stamp) || len(key) != len(one.Key) {
		return one, fmt.Errorf("the hashes of sign-in %s have %d, %d and %d bytes", one.ID, len(hash), len(stamp), len(key))
	}
	copy(one.Hash[:], hash)
	copy(one.Stamp[:], stamp)
	copy(one.Key[:], key)
	one.CreatedAt, one.LastUsed = instant(created), instant(used)
	return one, nil
}

// PutSignIn implements browser.Store.
func (s *Store) PutSignIn(ctx context.Context, one browser.SignIn) error {
	_, err := s.execChange(ctx, "INSERT INTO sign_ins (id, hash, owner, user_id, stamp, key_hash, created_at, last_used) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
		one.ID, one.Hash[:], one.Owner, one.UserID, one.Stamp[:], one.Key[:], micros(one.CreatedAt), micros(one.LastUsed))
	return wrapChange("write sign-in "+one.ID, err)
}

// DeleteSignIns implements browser.Store.
func (s *Store) DeleteSignIns(ctx context.Context, ids []string) error {
	list, err := json.Marshal(ids)
	if err != nil {
		return fmt.Errorf("encode the ids of sign-ins: %w", err)
	}
	_, err = s.execChange(ctx, "DELETE FROM sign_ins WHERE id IN (SELECT value FROM json_each(?))", string(list))
	return wrapChange("forget sign-ins", err)
}

// TouchSignIns implements browser.Store.
func (s *Store) TouchSignIns(ctx context.Context, used map[string]time.Time) error {
	err := s.inPassing(ctx, func(tx *sql.Tx) error {
		for id, at := range used {
			if _, err := tx.ExecContext(ctx, "UPDATE sign_ins SET last_used = ? WHERE id = ?", micros(at), id); err != nil {
				return err
			}
		}
		return nil
	})
	return wrapChange("write when sign-ins were used", err)
}
