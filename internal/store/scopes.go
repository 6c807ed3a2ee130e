package store

import (
	"context"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/scope"
)

var _ scope.Store = (*Store)(nil)

// scopesSQL makes the table of scopes that are complete. It is no migration, as
// clockSQL is none.
const scopesSQL = `CREATE TABLE IF NOT EXISTS scope_completions (
	owner TEXT NOT NULL,
	scope TEXT NOT NULL,
	due   INTEGER NOT NULL,
	PRIMARY KEY (owner, scope)
) STRICT`

// PutCompletion implements scope.Store.
func (s *Store) PutCompletion(ctx context.Context, c scope.Completion, most int) error {
	result, err := s.execChange(ctx, `INSERT INTO scope_completions
		SELECT ?1, ?2, ?3 WHERE (SELECT count(*) FROM scope_completions WHERE owner = ?1 AND scope <> ?2) < ?4
		ON CONFLICT (owner, scope) DO UPDATE SET due = ?3`,
		c.Owner, c.Scope, micros(c.Due), most)
	if err != nil {
		return wrap("complete a scope", err)
	}
	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		return errdefs.New(errdefs.ResourceExhausted,
			"the maximum of %d complete scopes that wait for their end is reached; wait for one, or complete one of them again with a shorter retention", most)
	}
	return err
}

// Completions implements scope.Store.
func (s *Store) Completions(ctx context.Context) ([]scope.Completion, error) {
	scan := func(row row) (scope.Completion, error) {
		var c scope.Completion
		var due int64
		err := row.Scan(&c.Owner, &c.Scope, &due)
		c.Due = instant(due)
		return c, err
	}
	return list(ctx, s, "list complete scopes", scan, "SELECT owner, scope, due FROM scope_completions ORDER BY due")
}

// DeleteCompletion implements scope.Store.
func (s *Store) DeleteCompletion(ctx context.Context, c scope.Completion) error {
	_, err := s.execChange(ctx, "DELETE FROM scope_completions WHERE owner = ? AND scope = ? AND due = ?", c.Owner, c.Scope, micros(c.Due))
	if err != nil {
		return wrap("forget a complete scope", err)
	}
	return nil
}

// DeleteCompletions implements scope.Store.
func (s *Store) DeleteCompletions(ctx context.Context, owner string) error {
	if _, err := s.execChange(ctx, "DELETE FROM scope_completions WHERE owner = ?", owner); err != nil {
		return wrap("forget complete scopes", err)
	}
	return nil
}
