package pause

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/runner/proc"
)

// beyond is more than any pid can be: what is "signalled" here is nobody.
const beyond = 1 << 23

// table is one of processes by pid: "STATE PARENT".
func table(t *testing.T, processes map[int]string) Programs {
	t.Helper()
	dir := t.TempDir()
	for pid, what := range processes {
		state, parent, _ := strings.Cut(what, " ")
		line := fmt.Sprintf("%d (program) %s %s 1 1%s\n", pid, state, parent, strings.Repeat(" 0", 46))
		if err := os.Mkdir(filepath.Join(dir, fmt.Sprint(pid)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(pid), "stat"), []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := Programs{Table: proc.Open(dir)}
	t.Cleanup(func() {
		if err := p.Table.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// The programs of a real container are paused by the Docker driver's tests.
func TestPaused(t *testing.T) {
	for name, c := range map[string]struct {
		processes map[int]string
		want      bool
	}{
		"none":             {map[int]string{1: "S 0"}, false},
		"one that runs":    {map[int]string{1: "S 0", beyond: "S 1"}, false},
		"all stopped":      {map[int]string{1: "S 0", beyond: "T 1", beyond + 1: "t 1"}, true},
		"some stopped":     {map[int]string{1: "S 0", beyond: "T 1", beyond + 1: "R 1"}, false},
		"from outside":     {map[int]string{1: "S 0", beyond: "T 1", beyond + 1: "R 0"}, true},
		"only from there":  {map[int]string{1: "S 0", beyond: "R 0"}, false},
		"dead but unasked": {map[int]string{1: "S 0", beyond: "T 1", beyond + 1: "Z 1"}, true},
	} {
		if got, err := table(t, c.processes).Paused(); err != nil || got != c.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestPauseEnds(t *testing.T) {
	if err := table(t, map[int]string{1: "S 0", beyond: "T 1"}).Pause(t.Context()); err != nil {
		t.Errorf("with nothing to stop: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := table(t, map[int]string{1: "S 0", beyond: "D 1"})
	if err := p.Pause(ctx); err == nil || !strings.Contains(err.Error(), "cannot be stopped") {
		t.Errorf("with one that does not stop: %v", err)
	}
	if err := p.Resume(); err != nil {
		t.Error(err)
	}
}
