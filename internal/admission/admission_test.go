package admission_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandkasten/sandkasten/internal/admission"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

const mib = 1 << 20

// has is a host that has this much left.
func has(r admission.Reading) func() (admission.Reading, error) {
	return func() (admission.Reading, error) { return r, nil }
}

func TestAdmit(t *testing.T) {
	reserve := admission.Reserve{MemoryBytes: 256 * mib, DiskBytes: 512 * mib, Pids: 1000}
	pooled := reserve
	pooled.PoolBytes = 512 * mib
	plenty := admission.Reading{MemoryBytes: 256 * mib, DiskBytes: 512 * mib, PoolBytes: 512 * mib, Pids: 1000}
	for _, c := range []struct {
		name    string
		left    func(*admission.Reading)
		reserve admission.Reserve
		want    []string // in the refusal
	}{
		{"just enough", func(*admission.Reading) {}, reserve, nil},
		{"memory", func(r *admission.Reading) { r.MemoryBytes = 100 * mib }, reserve, []string{"100 MiB of memory", "admission.memory_reserve_mb keeps 256 free"}},
		{"disk", func(r *admission.Reading) { r.DiskBytes-- }, reserve, []string{"511 MiB of disk", "admission.disk_reserve_mb keeps 512 free"}},
		{"pids", func(r *admission.Reading) { r.Pids = 7 }, reserve, []string{"7 processes", "admission.pids_reserve keeps 1000 free", "kernel.pid_max"}},
		{"pool", func(r *admission.Reading) { r.PoolBytes-- }, pooled, []string{"511 MiB of disk.pool_mb", "admission.disk_reserve_mb keeps 512 free"}},
		{"just enough of a pool", func(*admission.Reading) {}, pooled, nil},
		{"no pool", func(r *admission.Reading) { r.PoolBytes = 0 }, reserve, nil},
		{"no limits", func(r *admission.Reading) { *r = admission.Reading{} }, admission.Reserve{}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			left := plenty
			c.left(&left)
			err := admission.New(has(left), c.reserve).Admit(t.Context())
			if c.want == nil {
				if err != nil {
					t.Error(err)
				}
				return
			}
			code := errdefs.Unavailable
			if c.name == "pool" {
				code = errdefs.InsufficientSpace
			}
			if !errdefs.Is(err, code) {
				t.Fatalf("error %v", err)
			}
			for _, want := range c.want {
				if message := errdefs.MessageOf(err); !strings.Contains(message, want) {
					t.Errorf("%q does not say %q", message, want)
				}
			}
		})
	}
}

func TestAReadingCountsForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := admission.Reading{Pids: 1}
		gate := admission.New(func() (admission.Reading, error) { return left, nil }, admission.Reserve{Pids: 1})
		for _, c := range []struct {
			after time.Duration
			pids  int64
			admit bool
		}{
			{0, 1, true},
			{200 * time.Millisecond, 0, true},
			{100 * time.Millisecond, 0, true}, // and another is taken
			{time.Millisecond, 0, false},
			{time.Second, 1, false},
			{time.Millisecond, 1, true},
			{2 * time.Second, 0, false}, // too old
		} {
			time.Sleep(c.after)
			left.Pids = c.pids
			if err := gate.Admit(t.Context()); (err == nil) != c.admit {
				t.Errorf("after %v with %d left: %v", c.after, c.pids, err)
			}
			synctest.Wait()
		}
	})
}

// When room was made the next create looks itself, and what began to look before counts no
// more.
func TestForgetLooksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looking, left := make(chan struct{}), admission.Reading{}
		slow := false
		gate := admission.New(func() (admission.Reading, error) {
			r := left
			if slow {
				<-looking
			}
			return r, nil
		}, admission.Reserve{DiskBytes: 1})
		short := func() error { return gate.Admit(t.Context()) }
		if err := short(); !errors.Is(err, errdefs.ErrDiskShort) {
			t.Fatalf("error %v", err)
		}
		time.Sleep(300 * time.Millisecond)
		slow = true
		if short() == nil { // and another reading is taken, of before
			t.Error("admitted")
		}
		synctest.Wait()
		slow, left.DiskBytes = false, 1
		gate.Forget()
		if err := short(); err != nil {
			t.Errorf("after room was made: %v", err)
		}
		close(looking)
		synctest.Wait()
		if err := short(); err != nil {
			t.Errorf("after the older reading has come: %v", err)
		}
	})
}

// After a reading that failed the next create takes one itself.
func TestNoReadingCountsAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken error
		gate := admission.New(func() (admission.Reading, error) { return admission.Reading{Pids: 1}, broken }, admission.Reserve{Pids: 1})
		for i, c := range []struct {
			broken error
			admit  bool
		}{{nil, true}, {errors.New("broken for the test"), true}, {errors.New("still"), false}, {nil, true}} {
			broken = c.broken
			if err := gate.Admit(t.Context()); (err == nil) != c.admit {
				t.Errorf("create %d: %v", i, err)
			}
			synctest.Wait()
			time.Sleep(300 * time.Millisecond)
		}
	})
}

func TestUnknownIsNotRoom(t *testing.T) {
	broken := errors.New("broken for the test")
	g := admission.New(func() (admission.Reading, error) { return admission.Reading{}, broken }, admission.Reserve{})
	if err := g.Admit(t.Context()); !errdefs.Is(err, errdefs.Unavailable) || !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	if _, err := gather(t, g); err == nil {
		t.Error("metrics of a host that cannot be read")
	}
}

// gather returns the gate's metrics by name and resource.
func gather(t *testing.T, g *admission.Gate) (map[string]float64, error) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(g)
	families, err := registry.Gather()
	found := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			found[f.GetName()+" "+m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return found, err
}

func TestMetrics(t *testing.T) {
	g := admission.New(has(admission.Reading{MemoryBytes: 5, DiskBytes: 6, Pids: 7}), admission.Reserve{DiskBytes: 10})
	for range 3 {
		if err := g.Admit(t.Context()); err == nil {
			t.Fatal("admitted")
		}
	}
	with := admission.New(has(admission.Reading{PoolBytes: 8}), admission.Reserve{PoolBytes: 1})
	if got, err := gather(t, with); err != nil || got["sandkasten_host_left pool"] != 8 {
		t.Errorf("with a pool: %v, %v", got, err)
	}
	want := map[string]float64{
		"sandkasten_admissions_refused_total disk": 3, "sandkasten_admissions_refused_total memory": 0, "sandkasten_admissions_refused_total pids": 0,
		"sandkasten_host_left disk": 6, "sandkasten_host_left memory": 5, "sandkasten_host_left pids": 7,
	}
	if got, err := gather(t, g); err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

// proc makes a /proc of these files.
func proc(t *testing.T, files map[string]string) admission.Host {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return admission.Host{Proc: dir, DataDir: dir}
}

func TestHost(t *testing.T) {
	good := map[string]string{ // captured on Debian 12
		"meminfo":                "MemTotal:       24684212 kB\nMemFree:        22613624 kB\nMemAvailable:   23683108 kB\nBuffers:          211740 kB\n",
		"loadavg":                "0.52 0.58 0.59 3/467 11206\n",
		"sys/kernel/pid_max":     "4194304\n",
		"sys/kernel/threads-max": "192669\n",
	}
	r, err := proc(t, good).Read()
	if err != nil || r.MemoryBytes != 23683108<<10 || r.Pids != 192669-467 || r.DiskBytes <= 0 {
		t.Errorf("%+v, %v", r, err)
	}
	for name := range good {
		for _, text := range []string{"", "garbage\n"} {
			bad := map[string]string{}
			for other, text := range good {
				bad[other] = text
			}
			bad[name] = text
			if r, err := proc(t, bad).Read(); err == nil {
				t.Errorf("%s is %q: read %+v", name, text, r)
			}
		}
	}
	h := proc(t, good)
	h.PoolDir = h.DataDir
	if r, err := h.Read(); err != nil || r.PoolBytes <= 0 {
		t.Errorf("with a pool: %+v, %v", r, err)
	}
	for _, dir := range []*string{&h.PoolDir, &h.DataDir} {
		*dir = filepath.Join(*dir, "nosuch")
		if _, err := h.Read(); err == nil {
			t.Error("read a directory that does not exist")
		}
		*dir = filepath.Dir(*dir)
	}
}

func TestThisHost(t *testing.T) {
	r, err := admission.Host{Proc: "/proc", DataDir: t.TempDir()}.Read()
	if err != nil || r.MemoryBytes <= 0 || r.DiskBytes <= 0 || r.Pids <= 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

func BenchmarkRead(b *testing.B) {
	h := admission.Host{Proc: "/proc", DataDir: b.TempDir()}
	for b.Loop() {
		if _, err := h.Read(); err != nil {
			b.Fatal(err)
		}
	}
}
