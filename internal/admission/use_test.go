package admission_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
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

// The disk is as full as df says.
func TestDiskIsAsDfSays(t *testing.T) {
	dir := t.TempDir()
	u, err := admission.Host{Proc: "/proc", DataDir: dir}.Use()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "df", "-B1", "--output=used,avail", dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(out)) // Used Avail, and the numbers
	if len(fields) != 4 {
		t.Fatalf("df says %q", out)
	}
	const others = 256 << 20 // write meanwhile
	for i, got := range []int64{u.DiskBytes, u.DiskTotal - u.DiskBytes} {
		want, err := strconv.ParseInt(fields[2+i], 10, 64)
		if err != nil || max(got, want)-min(got, want) > others {
			t.Errorf("%s is %d, and df says %d (%v)", fields[i], got, want, err)
		}
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
