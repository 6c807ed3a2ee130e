package fault

import (
	"fmt"
	"strings"
	"testing"
	"time"

	sandkasten "github.com/sandkasten/sandkasten/sdk/go"
)

// A shell that cannot be started again because the session has no process left
// is an error, and works when there is one.
func TestF08_NoProcessForTheNextShell(t *testing.T) {
	t.Parallel()
	h := start(t, "")
	s := h.create(nil)
	h.sh(s, "cat > fill.py <<'X'\nimport os, signal, time\nwhile True:\n  try:\n    if os.fork() == 0: time.sleep(1000)\n  except OSError: time.sleep(0.01)\nX\n")
	if _, err := s.StartProcess(t.Context(), []string{"python3", "/workspace/fill.py"}, nil); err != nil {
		t.Fatal(err)
	}
	h.eventually(settle, func() error {
		stats, err := s.Stats(t.Context())
		if err == nil && stats.Pids < stats.PidsLimit {
			err = fmt.Errorf("%d of %d processes", stats.Pids, stats.PidsLimit)
		}
		return err
	})
	if _, err := s.Exec(t.Context(), "kill -9 $$", &sandkasten.ExecOptions{Timeout: 5 * time.Second}); err != nil {
		t.Logf("the command that kills the shell: %v", err)
	}
	began := time.Now()
	r, err := s.Exec(t.Context(), "echo next", &sandkasten.ExecOptions{Timeout: 5 * time.Second})
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("without a process the command takes %s: %+v, %v", took, r, err)
	}
	if code(err) == "internal" {
		t.Errorf("without a process: %v", err)
	}
	h.killWorkload(s)
	h.eventually(settle, func() error {
		r, err := s.Exec(t.Context(), "echo next", nil)
		if err == nil && strings.TrimSpace(r.Output) != "next" {
			err = fmt.Errorf("%+v", r)
		}
		return err
	})
	h.oracle()
	h.wantNothing()
}

// killWorkload kills what runs in a session, as often as it forks. That is one
// by one: some kernels kill at once whatever comes into a group from another
// that has been killed as a whole.
func (h *host) killWorkload(s *sandkasten.Session) {
	h.t.Helper()
	h.killIn(h.box(s.ID).Group)
}
