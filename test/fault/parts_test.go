package fault

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	sandkasten "github.com/sandkasten/sandkasten/sdk/go"
)

// Whatever one part of a session is missing, the daemon says what is left of it,
// cleans up and leaves the others alone.
func TestF21_PartOfASessionGone(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(*host, *sandkasten.Session){
		"directory": func(h *host, s *sandkasten.Session) { h.remove("sandboxes", s.ID) },
		"state":     func(h *host, s *sandkasten.Session) { h.remove("sandboxes", s.ID, "state.json") },
		"disk":      func(h *host, s *sandkasten.Session) { h.remove("sandboxes", s.ID, "disk.img") },
		"socket":    func(h *host, s *sandkasten.Session) { h.remove("sandboxes", s.ID, "runner.sock") },
		"socket replaced": func(h *host, s *sandkasten.Session) {
			h.remove("sandboxes", s.ID, "runner.sock")
			if err := os.WriteFile(filepath.Join(h.Data, "sandboxes", s.ID, "runner.sock"), nil, 0o600); err != nil {
				h.t.Fatal(err)
			}
		},
		"row": func(h *host, s *sandkasten.Session) { h.change("DELETE FROM sessions WHERE id = ?", s.ID) },
	} {
		for _, running := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, daemon running %v", name, running), func(t *testing.T) {
				t.Parallel()
				h := start(t, "")
				s, other := h.create(nil), h.create(nil)
				h.sh(s, "sleep 1000 &")
				runner := h.runner(s)
				if !running {
					h.Kill()
				}
				remove(h, s)
				if !running {
					h.Start()
				}
				h.sh(other, "v=kept")
				ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
				defer cancel()
				if _, err := s.Exec(ctx, "true", nil); code(err) == "internal" || ctx.Err() != nil {
					t.Errorf("a command in it: %v", err)
				}
				h.wantUsableOrEnded(s)
				if err := s.Destroy(t.Context()); err != nil && code(err) != "not_found" {
					t.Errorf("destroy: %v", err)
				}
				h.Restart()
				h.eventually(settle, func() error {
					if syscall.Kill(runner, 0) == nil {
						return fmt.Errorf("its runner, process %d, goes on", runner)
					}
					return nil
				})
				if got := h.sh(other, "echo $v"); got != "kept" {
					t.Errorf("the other session's shell has %q", got)
				}
				h.oracle()
				h.wantNothing()
			})
		}
	}
}

// wantUsableOrEnded waits until a session can be used, or no longer says that it
// runs.
func (h *host) wantUsableOrEnded(s *sandkasten.Session) {
	h.t.Helper()
	h.eventually(settle, func() error {
		info, err := s.Refresh(h.t.Context())
		if code(err) == "not_found" || err == nil && info.Status != "running" {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := s.Exec(h.t.Context(), "true", nil); err != nil {
			return fmt.Errorf("it is running and cannot be used: %w", err)
		}
		return nil
	})
}

// remove removes a file or directory below the daemon's data.
func (h *host) remove(path ...string) {
	h.t.Helper()
	if err := os.RemoveAll(filepath.Join(append([]string{h.Data}, path...)...)); err != nil {
		h.t.Fatal(err)
	}
}
