package linux

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/runtime"
)

// What the runner of an idle sandbox may cost: pages that are its own, and
// threads, which cost the kernel about 28 KiB each. On a slow machine there are
// a few more of them, for more calls are under way at one time. 2,000 idle
// sessions at 3 MB each, which docs/density.md tells of, are no longer there
// when one of these grows.
const (
	mostAnonymous = 1500 << 10
	mostThreads   = 14
)

func TestAnIdleSandboxIsSmall(t *testing.T) {
	d := root(t)
	sh := create(t, d, "small", runtime.Spec{})
	for range 20 {
		sh("true")
	}
	s, err := d.readState("small")
	if err != nil {
		t.Fatal(err)
	}
	proc := filepath.Join("/proc", strconv.Itoa(s.Process.PID))
	anonymous := anonymousBytes(t, filepath.Join(proc, "smaps_rollup"))
	threads, err := os.ReadDir(filepath.Join(proc, "task"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d KiB, %d threads", anonymous>>10, len(threads))
	if anonymous > mostAnonymous {
		t.Errorf("the runner has %d KiB of its own, more than %d", anonymous>>10, mostAnonymous>>10)
	}
	if len(threads) > mostThreads {
		t.Errorf("the runner has %d threads, more than %d", len(threads), mostThreads)
	}
}

// anonymousBytes are the pages of a process that come from no file: its
// program's are shared by all sandboxes.
func anonymousBytes(t *testing.T, rollup string) int64 {
	t.Helper()
	text, err := os.ReadFile(rollup)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "Anonymous:"); ok {
			var kib int64
			if _, err := fmt.Sscanf(value, "%d kB", &kib); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			return kib << 10
		}
	}
	t.Fatalf("%s does not tell of anonymous pages:\n%s", rollup, text)
	return 0
}

// Where a kernel gives huge pages unasked, as distributions have it, a runner's
// heap would be one. What it runs gets them.
func TestHugePages(t *testing.T) {
	d := root(t)
	sh := create(t, d, "pages", runtime.Spec{})
	sh("true")
	s, err := d.readState("pages")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(s.Process.PID), "status"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "THP_enabled:") {
		t.Log("this kernel has no huge pages")
		return
	}
	if !strings.Contains(string(text), "THP_enabled:\t0\n") {
		t.Error("the runner gets huge pages")
	}
	for _, command := range []string{"grep -h THP_enabled /proc/$$/status", "grep -h THP_enabled /proc/self/status"} {
		if got := sh(command); got != "THP_enabled:\t1\n" {
			t.Errorf("%s: %q", command, got)
		}
	}
}
