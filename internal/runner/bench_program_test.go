package runner_test

import (
	osexec "os/exec"
	"slices"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/protocol"
)

// BenchmarkProgramTrue is a program's round trip, and of the same one by
// os/exec, which is what can be hoped for.
func BenchmarkProgramTrue(b *testing.B) {
	p := newHost(b).dial()
	p.program(protocol.Start{}, "/bin/true")
	for name, run := range map[string]func(){
		"runner": func() { p.program(protocol.Start{}, "/bin/true") },
		"bare": func() {
			if err := osexec.CommandContext(b.Context(), "/bin/true").Run(); err != nil {
				b.Fatal(err)
			}
		},
	} {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				begin := time.Now()
				run()
				took = append(took, time.Since(begin))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
		})
	}
}
