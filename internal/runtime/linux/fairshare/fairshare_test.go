package fairshare

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/runtime/linux/cgroup"
)

// host is a tree of plain files in the place of cgroup v2.
type host struct {
	dir    string
	keeper *Keeper
	now    time.Time
	used   map[string]time.Duration
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{dir: t.TempDir(), now: time.Unix(1e9, 0), used: map[string]time.Duration{}}
	for _, dir := range []string{"", "sandkasten", "sandkasten/node"} {
		h.write(t, filepath.Join(dir, "cgroup.subtree_control"), "cpu memory pids")
	}
	h.write(t, "sandkasten/node/cgroup.procs", "")
	groups, err := cgroup.New("1 1 0:1 / "+h.dir+" rw - cgroup2 cgroup2 rw\n", "sandkasten/node")
	if err != nil {
		t.Fatal(err)
	}
	h.keeper = New(groups, slog.New(slog.DiscardHandler))
	return h
}

func (h *host) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// add makes a sandbox's group, with what the kernel says of it.
func (h *host) add(t *testing.T, id, idle string) {
	t.Helper()
	h.used[id] = 0
	h.write(t, filepath.Join("sandkasten/node", id, "cpu.idle"), idle)
}

// pass lets an interval pass in which sandboxes use so many cores, and looks.
func (h *host) pass(t *testing.T, use map[string]float64) {
	t.Helper()
	total := time.Duration(0)
	for id := range h.used {
		h.used[id] += time.Duration(use[id] * float64(interval))
		total += h.used[id]
		h.write(t, filepath.Join("sandkasten/node", id, "cpu.stat"), fmt.Sprintf("usage_usec %d\n", h.used[id].Microseconds()))
	}
	h.write(t, "sandkasten/node/cpu.stat", fmt.Sprintf("usage_usec %d\n", total.Microseconds()))
	h.now = h.now.Add(interval)
	if err := h.keeper.look(h.now); err != nil {
		t.Error(err)
	}
}

// behind are the sandboxes that the kernel lets wait.
func (h *host) behind(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(h.dir, "sandkasten/node/*/cpu.idle"))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, f := range files {
		if text, err := os.ReadFile(f); err != nil {
			t.Fatal(err)
		} else if strings.HasPrefix(string(text), "1") {
			found = append(found, filepath.Base(filepath.Dir(f)))
		}
	}
	return strings.Join(found, " ")
}

func TestTurns(t *testing.T) {
	h := newHost(t)
	h.add(t, "burner", "0")
	h.add(t, "light", "0")
	h.add(t, "left", "1") // by a daemon that was killed
	for i, step := range []struct {
		use  map[string]float64
		want string
	}{
		{nil, "left"}, // nothing runs: nobody is looked at
		{map[string]float64{"burner": 1, "light": 0.05}, "left"},
		{map[string]float64{"burner": 1, "light": 0.05}, "burner"},
		{map[string]float64{"burner": 1, "light": 0.3}, "burner"}, // for a moment
		{map[string]float64{"burner": 0.15}, "burner"},
		{nil, "burner"}, // nothing runs, but it was behind
		{nil, "burner"},
		{nil, "burner"},
		{nil, ""},
		{nil, ""},
		{map[string]float64{"burner": 0.5, "light": 0.5}, ""}, // after the quiet nothing is compared
		{map[string]float64{"burner": 0.5, "light": 0.5}, "burner light"},
		// What is much depends on what there is.
		{map[string]float64{"burner": 0.06, "light": 0.06}, "burner light"},
		{map[string]float64{"burner": 0.06, "light": 0}, "burner light"},
		{map[string]float64{"burner": 0.06, "light": 0}, "burner light"},
		{map[string]float64{"burner": 0.06, "light": 0}, "burner"},
		{map[string]float64{"burner": 1}, ""}, // alone, it is in nobody's way
	} {
		h.pass(t, step.use)
		if got := h.behind(t); got != step.want {
			t.Errorf("step %d, %v: %q are behind, want %q", i, step.use, got, step.want)
		}
	}
	// One that is gone is forgotten, and what follows does not stop.
	if err := os.RemoveAll(filepath.Join(h.dir, "sandkasten/node/burner")); err != nil {
		t.Fatal(err)
	}
	delete(h.used, "burner")
	h.pass(t, map[string]float64{"light": 0.5})
	h.pass(t, map[string]float64{"light": 0.5})
	if len(h.keeper.known) != 2 {
		t.Errorf("known: %v", h.keeper.known)
	}
}

func TestRunEnds(t *testing.T) {
	h := newHost(t)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		h.keeper.Run(quit)
	}()
	close(quit)
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Error("it goes on")
	}
}
