package pause

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/runner/proc"
	"github.com/sandkasten/sandkasten/protocol"
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

// runner is one that does as it is told, at the other end of each connection.
type runner struct {
	mu   sync.Mutex
	held bool
	said []bool
}

func (r *runner) connect() (net.Conn, error) {
	ours, theirs := net.Pipe()
	go func() {
		defer theirs.Close()
		head, err := protocol.NewReader(theirs, protocol.Daemon).Next()
		var req protocol.Hold
		if err != nil || head.Type != protocol.TypeHold || head.Decode(&req) != nil {
			return // the client hears no answer
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if req.On != nil {
			r.held = *req.On
			r.said = append(r.said, r.held)
		}
		if err := protocol.NewWriter(theirs).Send(protocol.TypeHeld, protocol.Held{On: r.held}, nil); err != nil {
			return // the same
		}
	}()
	return ours, nil
}

// The programs of a real container are paused by the Docker driver's tests.
func TestPause(t *testing.T) {
	for name, c := range map[string]struct {
		processes map[int]string
		want      bool // it comes to that
	}{
		"none":             {map[int]string{1: "S 0"}, true},
		"one that runs":    {map[int]string{1: "S 0", beyond: "D 1"}, false},
		"all stopped":      {map[int]string{1: "S 0", beyond: "T 1", beyond + 1: "t 1"}, true},
		"some stopped":     {map[int]string{1: "S 0", beyond: "T 1", beyond + 1: "R 1"}, false},
		"from outside":     {map[int]string{1: "S 0", beyond: "T 1", beyond + 1: "R 0"}, true},
		"only from there":  {map[int]string{1: "S 0", beyond: "R 0"}, true},
		"dead but unasked": {map[int]string{1: "S 0", beyond: "T 1", beyond + 1: "Z 1"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			p, r := table(t, c.processes), new(runner)
			p.Runner = r.connect
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			err := p.Pause(ctx)
			if (err == nil) != c.want || !c.want && !strings.Contains(err.Error(), "cannot be stopped") {
				t.Fatalf("Pause: %v", err)
			}
			if paused, err := p.Paused(); err != nil || paused != c.want {
				t.Errorf("Paused: %v, %v", paused, err)
			}
			if err := p.Resume(); err != nil {
				t.Error(err)
			}
			if paused, err := p.Paused(); err != nil || paused {
				t.Errorf("Paused after Resume: %v, %v", paused, err)
			}
			if !slices.Equal(slices.Compact(r.said), []bool{true, false}) {
				t.Errorf("the runner was told %v", r.said)
			}
		})
	}
}

// TestNoRunner: who does not answer is not taken to hold anything.
func TestNoRunner(t *testing.T) {
	p := table(t, map[int]string{1: "S 0", beyond: "T 1"})
	gone := errors.New("nobody listens")
	p.Runner = func() (net.Conn, error) { return nil, gone }
	_, err := p.Paused()
	for what, err := range map[string]error{"Pause": p.Pause(t.Context()), "Resume": p.Resume(), "Paused": err} {
		if !errors.Is(err, gone) {
			t.Errorf("%s: %v", what, err)
		}
	}
	p.Runner = func() (net.Conn, error) {
		ours, theirs := net.Pipe()
		return ours, theirs.Close()
	}
	if paused, err := p.Paused(); paused || err == nil {
		t.Errorf("cut off: %v, %v", paused, err)
	}
}
