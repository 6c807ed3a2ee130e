package stage

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// parts is over an ordinary directory: enough to see which directories are
// made and used again.
func parts(t *testing.T) (*Parts, string) {
	t.Helper()
	dir := t.TempDir()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Close(fd); err != nil {
			t.Error(err)
		}
	})
	return &Parts{parent: fd}, dir
}

func take(t *testing.T, p *Parts) *Part {
	t.Helper()
	part, err := p.Part()
	if err != nil {
		t.Fatal(err)
	}
	return part
}

func put(t *testing.T, dir string, part *Part, file, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, part.name, file), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestPartsAreUsedAgainWhenEmpty(t *testing.T) {
	p, dir := parts(t)
	a := take(t, p)
	b := take(t, p)
	put(t, dir, a, "cgroup.procs", "12\n")
	put(t, dir, b, "cgroup.procs", "")
	put(t, dir, b, "cpu.stat", "usage_usec 70\n")
	for _, part := range []*Part{a, b} {
		if err := part.Close(); err != nil {
			t.Fatal(err)
		}
	}
	c := take(t, p)
	if c.name != b.name {
		t.Errorf("took %s while %s is empty and %s is not", c.name, b.name, a.name)
	}
	put(t, dir, c, "cpu.stat", "usage_usec 100\nuser_usec 9\n")
	if got := c.CPUUsec(); got != 30 {
		t.Errorf("used %d us, of which 30 are its own", got)
	}
	d := take(t, p)
	if d.name == a.name || d.name == c.name {
		t.Errorf("took %s, which is in use", d.name)
	}
	for _, part := range []*Part{c, d} {
		if err := part.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPartReadsAndKills(t *testing.T) {
	p, dir := parts(t)
	part := take(t, p)
	put(t, dir, part, "cgroup.procs", "3\n0\n14\n")
	put(t, dir, part, "cgroup.kill", "")
	if got, err := part.PIDs(); err != nil || !slices.Equal(got, []int{3, 14}) {
		t.Errorf("pids %v, %v", got, err)
	}
	if err := part.Kill(); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, part.name, "cgroup.kill")); err != nil || string(b) != "1" {
		t.Errorf("wrote %q, %v", b, err)
	}
	put(t, dir, part, "cgroup.procs", "not a number\n")
	if _, err := part.PIDs(); err == nil {
		t.Error("nonsense is read as ids")
	}
	if err := part.Close(); err != nil {
		t.Fatal(err)
	}

	// Who was killed is not used again, and removed as soon as it can be.
	if next := take(t, p); next.name == part.name {
		t.Errorf("%s is used again", part.name)
	}
	for _, file := range []string{"cgroup.procs", "cgroup.kill"} {
		if err := os.Remove(filepath.Join(dir, part.name, file)); err != nil {
			t.Fatal(err)
		}
	}
	take(t, p)
	if _, err := os.Stat(filepath.Join(dir, part.name)); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", part.name, err)
	}
}
