package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session/secrets"
)

var _ secrets.Store = (*Store)(nil)

// secretsSQL makes the table of stored secrets. It is no migration, as clockSQL is
// none.
const secretsSQL = `CREATE TABLE IF NOT EXISTS secrets (
	owner      TEXT NOT NULL,
	name       TEXT NOT NULL,
	hosts      TEXT NOT NULL,
	header     TEXT NOT NULL,
	query      TEXT NOT NULL,
	shared     INTEGER NOT NULL,
	sealed     BLOB NOT NULL,
	created_at INTEGER NOT NULL,
	updated_at INTEGER NOT NULL,
	PRIMARY KEY (owner, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS secrets_shared ON secrets (name) WHERE shared`

// secretSQL selects what scanSecret reads.
const secretSQL = "SELECT owner, name, hosts, header, query, shared, sealed, created_at, updated_at FROM secrets"

func scanSecret(row row) (secrets.Row, error) {
	var s secrets.Row
	var hosts string
	var created, updated int64
	if err := row.Scan(&s.Owner, &s.Name, &hosts, &s.Header, &s.Query, &s.Shared, &s.Sealed, &created, &updated); err != nil {
		return s, err
	}
	if err := json.Unmarshal([]byte(hosts), &s.Hosts); err != nil {
		return s, fmt.Errorf("decode hosts of secret %s: %w", s.Name, err)
	}
	s.CreatedAt, s.UpdatedAt = instant(created), instant(updated)
	return s, nil
}

// PutSecret implements secrets.Store.
func (s *Store) PutSecret(ctx context.Context, r secrets.Row, most int) error {
	hosts, err := json.Marshal(r.Hosts)
	if err != nil {
		return fmt.Errorf("encode hosts: %w", err)
	}
	result, err := s.execChange(ctx, `INSERT INTO secrets (owner, name, hosts, header, query, shared, sealed, created_at, updated_at)
		SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9 WHERE (SELECT count(*) FROM secrets WHERE owner = ?1 AND name <> ?2) < ?10
		ON CONFLICT (owner, name) DO UPDATE SET hosts = ?3, header = ?4, query = ?5, shared = ?6, sealed = ?7, updated_at = ?9`,
		r.Owner, r.Name, string(hosts), r.Header, r.Query, r.Shared, r.Sealed, micros(r.CreatedAt), micros(r.UpdatedAt), most)
	if err != nil {
		return wrap("write secret "+r.Name, err)
	}
	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		return errdefs.New(errdefs.ResourceExhausted, "the maximum of %d stored secrets is reached; delete one", most)
	}
	return err
}

// GetSecret implements secrets.Store.
func (s *Store) GetSecret(ctx context.Context, owner, name string) (secrets.Row, error) {
	return s.secret(ctx, " WHERE owner = ? AND name = ?", owner, name)
}

// GetSharedSecret implements secrets.Store.
func (s *Store) GetSharedSecret(ctx context.Context, name string) (secrets.Row, error) {
	return s.secret(ctx, " WHERE shared AND name = ? ORDER BY owner DESC LIMIT 1", name)
}

func (s *Store) secret(ctx context.Context, where string, args ...any) (secrets.Row, error) {
	found, err := scanSecret(s.read.QueryRowContext(ctx, secretSQL+where, args...))
	if errors.Is(err, sql.ErrNoRows) {
		return found, errNoSecret()
	}
	if err != nil {
		return found, wrap("read a secret", err)
	}
	return found, nil
}

// SecretsOf implements secrets.Store.
func (s *Store) SecretsOf(ctx context.Context, owner string) ([]secrets.Secret, error) {
	scan := func(row row) (secrets.Secret, error) {
		found, err := scanSecret(row)
		return found.Secret, err
	}
	return list(ctx, s, "list secrets", scan, secretSQL+" WHERE owner = ? ORDER BY name", owner)
}

// DeleteSecret implements secrets.Store.
func (s *Store) DeleteSecret(ctx context.Context, owner, name string) error {
	result, err := s.execChange(ctx, "DELETE FROM secrets WHERE owner = ? AND name = ?", owner, name)
	if err != nil {
		return wrap("forget secret "+name, err)
	}
	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		return errNoSecret()
	}
	return err
}

func errNoSecret() error {
	return errdefs.New(errdefs.NotFound, "no such secret").Because(errdefs.NoSuchSecret)
}
