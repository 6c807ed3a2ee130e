package orchestrator

import (
	"context"
	"time"

	"github.com/sandkasten/sandkasten/internal/session"
)

// Files in memory are lost when their sandbox ends by itself. Snapshots from time to
// time bound that: see decision 48.

// shot is when a session in memory was looked at last, and what use of it was saved.
type shot struct {
	core session.ID
	at   time.Time
	used time.Time
}

// saveMemory takes a snapshot of a ready session whose files are in memory, if it was
// used since the last one and that is MemoryEvery ago. The caller has its lock.
func (s *Service) saveMemory(ctx context.Context, x *Session) error {
	if !s.opts.InMemory(s.driverOf(*x)) || s.keptWorkspace(*x) != "" {
		return nil
	}
	now := time.Now()
	s.mu.Lock()
	last, known := s.shots[x.ID]
	if !known || last.core != x.Core {
		last = shot{core: x.Core, at: now}
		s.shots[x.ID] = last
	}
	s.mu.Unlock()
	used := x.LastActivity
	if now.Sub(last.at) < s.opts.MemoryEvery || !s.isBusy(x.ID) && !used.After(last.used) {
		return nil
	}
	s.mu.Lock()
	s.shots[x.ID] = shot{core: x.Core, at: now, used: used}
	s.mu.Unlock()
	if err := s.save(ctx, x, labelMemory); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.shots[x.ID] = shot{core: x.Core, at: now, used: last.used}
		return err
	}
	return s.put(ctx, x)
}

// forgetShot forgets what is known of a session that is not ready any more.
func (s *Service) forgetShot(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.shots, id)
}

// lostInMemory is what a client is told of a sandbox that broke with newer files in
// memory than the latest snapshot has; "" if x is not such.
func (s *Service) lostInMemory(ctx context.Context, x Session) string {
	if x.Core == "" || !s.opts.InMemory(s.driverOf(x)) || s.keptWorkspace(x) != "" {
		return ""
	}
	core, err := s.opts.Sessions.Get(ctx, ownerOf(x), x.Core)
	if err != nil || core.State != session.Crashed {
		return ""
	}
	return "Files in memory that were newer than the latest snapshot are lost: " + core.EndReason
}
