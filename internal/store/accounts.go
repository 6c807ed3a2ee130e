package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sandkasten/sandkasten/internal/accounts"
)

var _ accounts.Store = (*Store)(nil)

// accountsSQL makes the tables of users and their keys. It is no migration, as
// clockSQL is none.
const accountsSQL = `CREATE TABLE IF NOT EXISTS users (
	id         TEXT NOT NULL PRIMARY KEY,
	name       TEXT NOT NULL UNIQUE,
	email      TEXT NOT NULL,
	role       TEXT NOT NULL,
	state      TEXT NOT NULL,
	password   TEXT NOT NULL,
	created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS user_keys (
	id         TEXT NOT NULL PRIMARY KEY,
	user_id    TEXT NOT NULL,
	name       TEXT NOT NULL,
	hash       BLOB NOT NULL UNIQUE,
	scope      TEXT NOT NULL,
	parent_id  TEXT NOT NULL,
	created_at INTEGER NOT NULL,
	expires_at INTEGER NOT NULL,
	revoked_at INTEGER NOT NULL,
	last_used  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS user_keys_user ON user_keys (user_id);
CREATE TABLE IF NOT EXISTS user_quotas (
	user_id TEXT NOT NULL PRIMARY KEY,
	quota   TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS user_rights (
	user_id TEXT NOT NULL PRIMARY KEY,
	rights  TEXT NOT NULL
) STRICT, WITHOUT ROWID`

// Accounts implements accounts.Store.
func (s *Store) Accounts(ctx context.Context) ([]accounts.User, []accounts.Key, error) {
	users, err := list(ctx, s, "list users", scanUser, `SELECT id, name, email, role, state, password, created_at,
		coalesce((SELECT quota FROM user_quotas WHERE user_id = id), '{}'),
		coalesce((SELECT rights FROM user_rights WHERE user_id = id), '{}') FROM users ORDER BY name`)
	if err != nil {
		return nil, nil, err
	}
	keys, err := list(ctx, s, "list the keys of users", scanKey,
		"SELECT id, user_id, name, hash, scope, parent_id, created_at, expires_at, revoked_at, last_used FROM user_keys ORDER BY created_at, id")
	return users, keys, err
}

func scanUser(row row) (u accounts.User, err error) {
	var created int64
	var quota, rights string
	if err := row.Scan(&u.ID, &u.Name, &u.Email, &u.Role, &u.State, &u.PasswordHash, &created, &quota, &rights); err != nil {
		return u, err
	}
	u.CreatedAt = instant(created)
	if err := json.Unmarshal([]byte(quota), &u.Quota); err != nil {
		return u, fmt.Errorf("decode the quota of user %s: %w", u.Name, err)
	}
	if err := json.Unmarshal([]byte(rights), &u.Rights); err != nil {
		return u, fmt.Errorf("decode the rights of user %s: %w", u.Name, err)
	}
	return u, nil
}

func scanKey(row row) (k accounts.Key, err error) {
	var hash []byte
	var created, expires, revoked, used int64
	if err := row.Scan(&k.ID, &k.UserID, &k.Name, &hash, &k.Scope, &k.ParentID, &created, &expires, &revoked, &used); err != nil {
		return k, err
	}
	if len(hash) != len(k.Hash) {
		return k, fmt.Errorf("the hash of key %s has %d bytes", k.ID, len(hash))
	}
	copy(k.Hash[:], hash)
	k.CreatedAt, k.ExpiresAt, k.RevokedAt, k.LastUsed = instant(created), instant(expires), instant(revoked), instant(used)
	return k, nil
}

// PutUser implements accounts.Store.
func (s *Store) PutUser(ctx context.Context, u accounts.User) error {
	quota, err := json.Marshal(u.Quota)
	if err != nil {
		return fmt.Errorf("encode a quota: %w", err)
	}
	rights, err := json.Marshal(u.Rights)
	if err != nil {
		return fmt.Errorf("encode rights: %w", err)
	}
	err = s.together(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO users (id, name, email, role, state, password, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
			ON CONFLICT (id) DO UPDATE SET email = ?3, role = ?4, state = ?5, password = ?6`,
			u.ID, u.Name, u.Email, u.Role, u.State, u.PasswordHash, micros(u.CreatedAt))
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO user_quotas (user_id, quota) VALUES (?1, ?2) ON CONFLICT (user_id) DO UPDATE SET quota = ?2", u.ID, string(quota))
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO user_rights (user_id, rights) VALUES (?1, ?2) ON CONFLICT (user_id) DO UPDATE SET rights = ?2", u.ID, string(rights))
		return err
	})
	return wrapChange("write user "+u.Name, err)
}

// DeleteUser implements accounts.Store.
func (s *Store) DeleteUser(ctx context.Context, id string) error {
	err := s.together(ctx, func(tx *sql.Tx) error {
		for _, table := range []string{"user_keys", "user_quotas", "user_rights", "user_identities"} {
			if _, err := tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE user_id = ?", id); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, "DELETE FROM users WHERE id = ?", id)
		return err
	})
	return wrapChange("forget user "+id, err)
}

// PutKey implements accounts.Store.
func (s *Store) PutKey(ctx context.Context, k accounts.Key, instead string) error {
	err := s.together(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "DELETE FROM user_keys WHERE id = ?", instead); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO user_keys (id, user_id, name, hash, scope, parent_id, created_at, expires_at, revoked_at, last_used)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			k.ID, k.UserID, k.Name, k.Hash[:], k.Scope, k.ParentID, micros(k.CreatedAt), micros(k.ExpiresAt), micros(k.RevokedAt), micros(k.LastUsed))
		return err
	})
	return wrapChange("write key "+k.ID, err)
}

// RevokeKeys implements accounts.Store.
func (s *Store) RevokeKeys(ctx context.Context, ids []string, at time.Time) error {
	list, err := json.Marshal(ids)
	if err != nil {
		return fmt.Errorf("encode the ids of keys: %w", err)
	}
	_, err = s.execChange(ctx, "UPDATE user_keys SET revoked_at = ? WHERE id IN (SELECT value FROM json_each(?))", micros(at), string(list))
	return wrapChange("revoke keys", err)
}

// TouchKeys implements accounts.Store.
func (s *Store) TouchKeys(ctx context.Context, used map[string]time.Time) error {
	err := s.inPassing(ctx, func(tx *sql.Tx) error {
		for id, at := range used {
			if _, err := tx.ExecContext(ctx, "UPDATE user_keys SET last_used = ? WHERE id = ?", micros(at), id); err != nil {
				return err
			}
		}
		return nil
	})
	return wrapChange("write when keys were used", err)
}

// together runs do in one transaction, once more if the disk was full and there is
// room now.
func (s *Store) together(ctx context.Context, do func(tx *sql.Tx) error) error {
	_, err := s.change(func() (sql.Result, error) { return nil, s.inPassing(ctx, do) })
	return err
}

// inPassing is together for what is written again and again by itself. On a full disk
// it fails: the room that MakeRoom has is for what somebody asks for.
func (s *Store) inPassing(ctx context.Context, do func(tx *sql.Tx) error) error {
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// wrapChange is wrap of an error that there may be.
func wrapChange(op string, err error) error {
	if err == nil {
		return nil
	}
	return wrap(op, err)
}
