// Package store keeps sessions in an SQLite file. It implements session.Store
// and decides nothing: what a row may say is the session package's business.
//
// A session's environment is not stored. It is needed once, when its sandbox
// is made, and may hold secrets.
package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"time"

	"github.com/pressly/goose/v3"
	sqlite "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

//go:embed migrations/*.sql
var migrations embed.FS

// readers is how many queries may run beside the one writer.
const readers = 4

// Store is an open database. Its methods may be called concurrently.
type Store struct {
	write *sql.DB // one connection: writers queue here and not in SQLite
	read  *sql.DB
	put   *sql.Stmt
	get   *sql.Stmt

	selected string // the columns of a session: withNetwork, or withoutNetwork

	// MakeRoom, which may be nil, is asked when the disk is full and something is
	// to be changed or removed: after true that is tried once more. It is set
	// before the store is used.
	MakeRoom func() bool
}

// change runs do, once more if the disk was full and there is room now.
func (s *Store) change(do func() (sql.Result, error)) (sql.Result, error) {
	result, err := do()
	if resultCode(err) == sqlite3.SQLITE_FULL && s.MakeRoom != nil && s.MakeRoom() {
		return do()
	}
	return result, err
}

// execChange is change for one statement.
func (s *Store) execChange(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return s.change(func() (sql.Result, error) { return s.write.ExecContext(ctx, query, args...) })
}

// Open opens the database at path, making it with mode 0600 if there is none,
// and brings its schema up to date. It refuses a file that is damaged, that is
// no database or that a newer version has written, and leaves it as it is. The
// caller closes the store.
func Open(ctx context.Context, path string) (*Store, error) {
	return open(ctx, path, lockWait)
}

// lockWait is how long a write waits while another process, a backup say, has
// the database locked.
const lockWait = 5 * time.Second

func open(ctx context.Context, path string, wait time.Duration) (*Store, error) {
	// SQLite gives its journal files the mode of the database, so the mode
	// must be right before it makes them.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the session database: %w", err)
	}
	if err := errors.Join(f.Chmod(0o600), f.Close()); err != nil {
		return nil, fmt.Errorf("open the session database: %w", err)
	}
	s := &Store{}
	if err := s.open(ctx, path, wait); err != nil {
		return nil, errors.Join(explain(path, err), s.Close())
	}
	return s, nil
}

// Look opens the database at path to be read only, beside the daemon that has
// it. It makes none, returning fs.ErrNotExist, and changes no schema: one of
// another version is refused. The caller closes the store.
func Look(ctx context.Context, path string) (*Store, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("open the session database: %w", err)
	}
	s := &Store{}
	if err := s.look(ctx, path); err != nil {
		return nil, errors.Join(explain(path, err), s.Close())
	}
	return s, nil
}

func (s *Store) look(ctx context.Context, path string) (err error) {
	if s.read, err = sql.Open("sqlite", dsn(path, lockWait, "query_only(1)")); err != nil {
		return err
	}
	s.read.SetMaxOpenConns(readers)
	if err := check(ctx, s.read); err != nil {
		return err
	}
	if err := refuseForeign(ctx, s.read); err != nil {
		return err
	}
	var have int64
	if err := s.read.QueryRowContext(ctx, "SELECT max(version_id) FROM goose_db_version").Scan(&have); err != nil {
		return err
	}
	known, err := latest()
	switch {
	case err != nil:
		return err
	case have > known:
		return fmt.Errorf("%w: its schema is %d, this version knows %d", errNewer, have, known)
	case have < known:
		return fmt.Errorf("its schema is %d, and this version's %d: start this version's daemon first, which brings it up to date", have, known)
	}
	switch there, err := hasExpiry(ctx, s.read); {
	case err != nil:
		return err
	case !there:
		return errors.New("it is of an earlier version: start this version's daemon first, which brings it up to date")
	}
	var networks int
	if err := s.read.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema WHERE name = 'networks'").Scan(&networks); err != nil {
		return err
	}
	s.selected = withNetwork
	if networks == 0 {
		s.selected = withoutNetwork
	}
	s.get, err = s.read.PrepareContext(ctx, "SELECT "+s.selected+" FROM sessions WHERE id = ?")
	return err
}

// Copy writes a copy of the database at path to the file to, which must not
// exist: as it is at one moment, also beside the daemon that works with it.
func Copy(ctx context.Context, path, to string) (err error) {
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("open the session database: %w", err)
	}
	db, err := sql.Open("sqlite", dsn(path, lockWait, "foreign_keys(0)"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := check(ctx, db); err != nil {
		return explain(path, err)
	}
	if err := refuseForeign(ctx, db); err != nil {
		return explain(path, err)
	}
	if _, err := db.ExecContext(ctx, "VACUUM INTO ?", to); err != nil {
		return fmt.Errorf("copy the session database to %s: %w", to, err)
	}
	return nil
}

// latest is the version of the schema that this build has.
func latest() (int64, error) {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil || len(names) == 0 {
		return 0, fmt.Errorf("list the migrations: %w", err)
	}
	return goose.NumericComponent(names[len(names)-1])
}

func (s *Store) open(ctx context.Context, path string, wait time.Duration) (err error) {
	if s.write, err = sql.Open("sqlite", dsn(path, wait, "journal_mode(WAL)")); err != nil {
		return err
	}
	s.write.SetMaxOpenConns(1)
	if s.read, err = sql.Open("sqlite", dsn(path, wait, "query_only(1)")); err != nil {
		return err
	}
	s.read.SetMaxOpenConns(readers)
	s.read.SetMaxIdleConns(readers)
	if err := check(ctx, s.write); err != nil {
		return err
	}
	if err := refuseForeign(ctx, s.write); err != nil && !errors.Is(err, errEmpty) {
		return err
	}
	if err := migrate(ctx, s.write); err != nil {
		return err
	}
	if err := addExpiry(ctx, s.write); err != nil {
		return err
	}
	for _, table := range []string{clockSQL, networksSQL, secretsSQL, accountsSQL, inspectionsSQL, signInsSQL, identitiesSQL, orchestratorSQL, keepingSQL, artifactsSQL, snapshotNamesSQL, usageSQL, scopesSQL, historySQL, hostHistorySQL} {
		if _, err := s.write.ExecContext(ctx, table); err != nil {
			return err
		}
	}
	s.selected = withNetwork
	if s.put, err = s.write.PrepareContext(ctx, putSQL); err != nil {
		return err
	}
	s.get, err = s.read.PrepareContext(ctx, "SELECT "+s.selected+" FROM sessions WHERE id = ?")
	return err
}

// Close closes the database. Nothing may use the store any more.
func (s *Store) Close() error {
	var errs []error
	for _, c := range []*sql.Stmt{s.put, s.get} {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	for _, db := range []*sql.DB{s.read, s.write} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

// dsn names the database with what every connection to it sets.
func dsn(path string, wait time.Duration, pragma string) string {
	q := url.Values{
		"_pragma": {fmt.Sprintf("busy_timeout(%d)", wait.Milliseconds()), "synchronous(NORMAL)", pragma},
		"_txlock": {"immediate"}, // a transaction that will write waits at its start, not in the middle
	}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode()
}

var errDamaged = errors.New("the file is damaged")

// check reads the whole file once; it is small.
func check(ctx context.Context, db *sql.DB) error {
	var verdict string
	if err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict); err != nil {
		return err
	}
	if verdict != "ok" {
		return fmt.Errorf("%w: %s", errDamaged, verdict)
	}
	return nil
}

var (
	errForeign = errors.New("it is another program's: it has tables, and none of sandkasten's")
	errEmpty   = errors.New("it is empty")
)

// refuseForeign keeps the migrations out of a database that is not ours, and
// returns errEmpty for one that is nobody's yet.
func refuseForeign(ctx context.Context, db *sql.DB) error {
	var tables, ours int
	err := db.QueryRowContext(ctx, "SELECT count(*), coalesce(sum(name = 'goose_db_version'), 0) FROM sqlite_schema WHERE type = 'table'").Scan(&tables, &ours)
	switch {
	case err != nil || ours > 0:
		return err
	case tables > 0:
		return errForeign
	default:
		return errEmpty
	}
}

var errNewer = errors.New("a newer version of sandkasten has written it")

// migrate applies the migrations that db lacks, each in a transaction.
func migrate(ctx context.Context, db *sql.DB) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, files)
	if err != nil {
		return err
	}
	have, known, err := provider.GetVersions(ctx)
	if err != nil {
		return err
	}
	if have > known {
		return fmt.Errorf("%w: its schema is %d, this version knows %d", errNewer, have, known)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// explain says what to do about a database that cannot be opened.
func explain(path string, err error) error {
	switch code := resultCode(err); {
	case errors.Is(err, errDamaged), errors.Is(err, errForeign), errors.Is(err, errEmpty), code == sqlite3.SQLITE_CORRUPT, code == sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("the session database %s cannot be used: %w; restore a backup (`sandkasten restore FILE`), or move it away and "+
			"have sessions made of the sandboxes that are there (`sandkasten recover`)", path, err)
	case errors.Is(err, errNewer):
		return fmt.Errorf("the session database %s cannot be used: %w; run that version, or restore a backup that an older one has made", path, err)
	default:
		return fmt.Errorf("open the session database %s: %w", path, err)
	}
}

// resultCode returns SQLite's primary result code, or 0 for another error.
func resultCode(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// row is one of a query's, as scan functions take it.
type row interface{ Scan(...any) error }

// list returns what scan makes of each row of a query; op is for errors.
func list[T any](ctx context.Context, s *Store, op string, scan func(row) (T, error), query string, args ...any) (found []T, err error) {
	rows, err := s.read.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, wrap(op, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, wrap(op, err)
		}
		found = append(found, one)
	}
	if err := rows.Err(); err != nil {
		return nil, wrap(op, err)
	}
	return found, nil
}

// wrap adds the operation and, where it is the client's business, a code.
func wrap(op string, err error) error {
	switch resultCode(err) {
	case sqlite3.SQLITE_FULL:
		return errdefs.Wrap(fmt.Errorf("%s: %w", op, err), errdefs.InsufficientSpace, "the daemon's disk is full")
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return errdefs.Wrap(fmt.Errorf("%s: %w", op, err), errdefs.Unavailable, "the session database is busy; try again")
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN:
		return errdefs.Wrap(fmt.Errorf("%s: %w", op, err), errdefs.Unavailable,
			"the session database cannot be written; the daemon's operator has to look at its disk")
	}
	return fmt.Errorf("%s: %w", op, err)
}
