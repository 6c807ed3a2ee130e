package linux

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/protocol"
)

// BenchmarkTrue is the round trip of a program and of a shell's command in a
// sandbox, and of the same program by os/exec on the host. They take turns, so
// that what else the machine does counts for all of them.
func BenchmarkTrue(b *testing.B) {
	testenv.NeedsRoot(b)
	d := newTestDriver(b)
	sb, err := d.Create(b.Context(), "bench", runtime.Spec{Image: "test"})
	if err != nil {
		b.Fatal(err)
	}
	c := &runnerclient.Client{Dial: sb.DialRunner}
	b.Cleanup(func() {
		if err := errors.Join(c.Close(), d.Destroy(context.WithoutCancel(b.Context()), "bench")); err != nil {
			b.Error(err)
		}
	})
	names := []string{"program", "shell", "host"}
	took := make([][]time.Duration, len(names))
	for n := 0; b.Loop(); n++ {
		for i, run := range []func() error{
			func() error {
				_, err := c.Run(b.Context(), protocol.Start{ID: fmt.Sprint("p", n)}, runnerclient.Program{Args: []string{"true"}}, io.Discard)
				return err
			},
			func() error {
				_, err := c.Exec(b.Context(), protocol.Exec{ID: fmt.Sprint("e", n)}, "true", nil, io.Discard)
				return err
			},
			func() error { return exec.CommandContext(b.Context(), "true").Run() },
		} {
			begin := time.Now()
			if err := run(); err != nil {
				b.Fatal(err)
			}
			took[i] = append(took[i], time.Since(begin))
		}
	}
	for i, name := range names {
		slices.Sort(took[i])
		b.ReportMetric(float64(took[i][len(took[i])/2].Microseconds()), name+"-p50-us")
		b.ReportMetric(float64(took[i][len(took[i])/10].Microseconds()), name+"-p10-us")
	}
}

// BenchmarkCreate is a runner made ready, and a sandbox made with one that was.
func BenchmarkCreate(b *testing.B) {
	testenv.NeedsRoot(b)
	d := newTestDriver(b)
	var took, ready []time.Duration
	for b.Loop() {
		begin := time.Now()
		p, err := d.prepare(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		ready = append(ready, time.Since(begin))
		d.shelve(p)
		begin = time.Now()
		if _, err := d.Create(b.Context(), "bench", runtime.Spec{Image: "test"}); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begin))
		if err := d.Destroy(b.Context(), "bench"); err != nil {
			b.Fatal(err)
		}
	}
	for name, all := range map[string][]time.Duration{"create": took, "prepare": ready} {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds()), name+"-p50-us")
	}
}

// BenchmarkSweeps is what the driver does again and again for each sandbox:
// docs/density.md has what that is for 2,000 of them.
func BenchmarkSweeps(b *testing.B) {
	testenv.NeedsRoot(b)
	d := newTestDriver(b)
	const sandboxes = 20
	for i := range sandboxes {
		id := runtime.ID(fmt.Sprint("sweep", i))
		if _, err := d.Create(b.Context(), id, runtime.Spec{Image: "test"}); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := d.Destroy(context.WithoutCancel(b.Context()), id); err != nil {
				b.Error(err)
			}
		})
	}
	each := func(do func(id runtime.ID) error) func() error {
		return func() error {
			var errs []error
			for i := range sandboxes {
				errs = append(errs, do(runtime.ID(fmt.Sprint("sweep", i))))
			}
			return errors.Join(errs...)
		}
	}
	for name, sweep := range map[string]func() error{
		"list":     func() error { list(b, d); return nil },
		"room":     func() error { _, err := d.measureDisks(); return err },
		"cpu":      each(func(id runtime.ID) error { d.cgroups.Group(string(id)).CPU(); return nil }),
		"members":  each(func(id runtime.ID) error { _, err := d.cgroups.Group(string(id)).Members(); return err }),
		"view":     each(func(id runtime.ID) error { return d.renewTracked(id, d.views.tracked()[id]) }),
		"busyview": each(func(id runtime.ID) error { return d.renewView(d.views.tracked()[id]) }),
		"stats": each(func(id runtime.ID) error {
			sb, err := d.Open(b.Context(), id)
			if err == nil {
				_, err = sb.Stats(b.Context())
			}
			return err
		}),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := sweep(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*sandboxes), "us/sandbox")
		})
	}
}
