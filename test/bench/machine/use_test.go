package machine

import (
	"os"
	"path/filepath"
	"testing"
)

func TestProcessKnowsUs(t *testing.T) {
	bytes, descriptors, err := Process(os.Getpid())
	if err != nil || bytes < 1<<20 || descriptors < 3 {
		t.Errorf("we have %d bytes and %d descriptors, %v", bytes, descriptors, err)
	}
	if n, err := Tasks(); err != nil || n < 2 {
		t.Errorf("the host has %d tasks, %v", n, err)
	}
}

func TestParseTasks(t *testing.T) {
	if n, err := parseTasks("0.65 2.20 2.40 2/138 30107\n"); n != 138 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for _, text := range []string{"", "0.65 2.20 2.40", "0.65 2.20 2.40 138 30107"} {
		if n, err := parseTasks(text); err == nil {
			t.Errorf("%q has %d tasks", text, n)
		}
	}
}

func TestDiskLeavesOutHoles(t *testing.T) {
	dir := t.TempDir()
	empty, err := Disk(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sparse"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, "sparse"), 1<<30); err != nil {
		t.Fatal(err)
	}
	if got, err := Disk(dir); err != nil || got-empty > 1<<20 {
		t.Errorf("a hole takes %d bytes, %v", got-empty, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "full"), make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Disk(dir); err != nil || got-empty < 4<<20 {
		t.Errorf("4 MiB take %d bytes, %v", got-empty, err)
	}
}
