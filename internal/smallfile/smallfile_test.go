package smallfile_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/smallfile"
)

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, size := range []int{0, 1, 4095, 4096, 4097, 8192, 100_000} {
		want := bytes.Repeat([]byte("x"), size)
		if err := os.WriteFile(path, want, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := smallfile.Read(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes instead of %d, %v", len(got), size, err)
		}
	}
	if got, err := smallfile.Read("/proc/self/mountinfo"); err != nil || !bytes.Contains(got, []byte(" /proc ")) {
		t.Errorf("of /proc: %q, %v", got, err)
	}
}

func TestReadErrors(t *testing.T) {
	dir := t.TempDir()
	var of *os.PathError
	if _, err := smallfile.Read(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &of) {
		t.Errorf("no file: %v", err)
	}
	if _, err := smallfile.Read(dir); !errors.Is(err, unix.EISDIR) {
		t.Errorf("a directory: %v", err)
	}
}

func BenchmarkRead(b *testing.B) {
	for name, read := range map[string]func(string) ([]byte, error){"smallfile": smallfile.Read, "os": os.ReadFile} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := read("/proc/loadavg"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
