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
