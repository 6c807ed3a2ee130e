package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/sandkasten/sandkasten/internal/session/networks"
)

var _ networks.Store = (*Store)(nil)

// networksSQL makes the table of what sessions may reach: public is shown with a
// session, sealed is encrypted. It is no migration: a version that has none of it
// would refuse the database, and gives its sessions no network.
const networksSQL = `CREATE TABLE IF NOT EXISTS networks (
	session TEXT PRIMARY KEY,
	public  TEXT NOT NULL,
	sealed  BLOB
) STRICT, WITHOUT ROWID`

// PutNetwork implements networks.Store.
func (s *Store) PutNetwork(ctx context.Context, session string, public, sealed []byte) error {
	_, err := s.execChange(ctx, "INSERT INTO networks (session, public, sealed) VALUES (?1, ?2, ?3) ON CONFLICT (session) DO UPDATE SET public = ?2, sealed = ?3",
		session, string(public), sealed)
	if err != nil {
		return wrap("write the network of session "+session, err)
	}
	return nil
}

// SealedNetwork implements networks.Store.
func (s *Store) SealedNetwork(ctx context.Context, session string) (sealed []byte, err error) {
	err = s.read.QueryRowContext(ctx, "SELECT sealed FROM networks WHERE session = ?", session).Scan(&sealed)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, wrap("read the network of session "+session, err)
	}
	return sealed, nil
}

// pruneNetworks forgets the networks of sessions that are forgotten.
const pruneNetworks = "DELETE FROM networks WHERE session NOT IN (SELECT id FROM sessions)"
