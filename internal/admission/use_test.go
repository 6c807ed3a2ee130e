package admission_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sandkasten/sandkasten/internal/admission"
)

func TestUse(t *testing.T) {
	good := map[string]string{
		"meminfo": "MemTotal:       1000 kB\nMemFree:        1 kB\nMemAvailable:   400 kB\n",
		"stat":    "cpu  10 20 30 400 50 1 2 3 5 5\ncpu0 5 10 15 200 25 1 1 2 2 2\ncpu1 5 10 15 200 25 0 1 1 3 3\nintr 7\nctxt 8\n",
	}
	h := proc(t, good)
	u, err := h.Use()
	if err != nil || u.CPUs != 2 || u.BusyCPU != 63 || u.TotalCPU != 516 || u.MemoryBytes != 600<<10 || u.MemoryTotal != 1000<<10 {
		t.Errorf("%+v, %v", u, err)
	}
	if u.DiskBytes <= 0 || u.DiskTotal <= u.DiskBytes || u.PoolTotal != 0 {
		t.Errorf("disk of %+v", u)
	}
	h.PoolDir = h.DataDir
	if u, err := h.Use(); err != nil || u.PoolTotal != u.DiskTotal {
		t.Errorf("with a pool: %+v, %v", u, err)
	}
	for name := range good {
		for _, text := range []string{"", "garbage\n", "cpu  1 2\n"} {
			if err := os.WriteFile(filepath.Join(h.Proc, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			if u, err := h.Use(); err == nil {
				t.Errorf("%s is %q: read %+v", name, text, u)
			}
		}
		if err := os.WriteFile(filepath.Join(h.Proc, name), []byte(good[name]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestUseOfThisHost(t *testing.T) {
	u, err := admission.Host{Proc: "/proc", DataDir: t.TempDir()}.Use()
	if err != nil || u.CPUs < 1 || u.BusyCPU <= 0 || u.BusyCPU > u.TotalCPU || u.MemoryBytes <= 0 || u.MemoryBytes >= u.MemoryTotal {
		t.Errorf("%+v, %v", u, err)
	}
}

func BenchmarkUse(b *testing.B) {
	h := admission.Host{Proc: "/proc", DataDir: b.TempDir()}
	for b.Loop() {
		if _, err := h.Use(); err != nil {
			b.Fatal(err)
		}
	}
}
