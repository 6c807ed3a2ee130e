package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/sandkasten/sandkasten/internal/accounts/oidc"
)

var _ oidc.Store = (*Store)(nil)

// identitiesSQL makes the table of which user a subject of an OpenID Connect provider
// is. It is no migration, as clockSQL is none.
const identitiesSQL = `CREATE TABLE IF NOT EXISTS user_identities (
	issuer  TEXT NOT NULL,
	subject TEXT NOT NULL,
	user_id TEXT NOT NULL,
	PRIMARY KEY (issuer, subject)
) STRICT, WITHOUT ROWID`

// IdentityUser implements oidc.Store.
func (s *Store) IdentityUser(ctx context.Context, issuer, subject string) (userID string, err error) {
	err = s.read.QueryRowContext(ctx, "SELECT user_id FROM user_identities WHERE issuer = ? AND subject = ?", issuer, subject).Scan(&userID)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return userID, wrapChange("find the user of a subject", err)
}

// PutIdentity implements oidc.Store.
func (s *Store) PutIdentity(ctx context.Context, issuer, subject, userID string) error {
	_, err := s.execChange(ctx, `INSERT INTO user_identities (issuer, subject, user_id) VALUES (?1, ?2, ?3)
		ON CONFLICT (issuer, subject) DO UPDATE SET user_id = ?3`, issuer, subject, userID)
	return wrapChange("write the user of a subject", err)
}
