package store

import "context"

// OpenWaiting is Open with another lockWait.
var OpenWaiting = open

// Freeze has every later write refused, as on a file system that has turned
// read-only.
func Freeze(ctx context.Context, s *Store) error {
	_, err := s.write.ExecContext(ctx, "PRAGMA query_only(1)")
	return err
}

// Fill has every later write that needs room refused, as on a full disk.
func Fill(ctx context.Context, s *Store) error {
	_, err := s.write.ExecContext(ctx, "PRAGMA max_page_count = 1") // no less than there are
	return err
}

// Exec changes rows as another version may.
func Exec(ctx context.Context, s *Store, query string) error {
	_, err := s.write.ExecContext(ctx, query)
	return err
}
