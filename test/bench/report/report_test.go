package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/test/bench/machine"
)

func ms(p50, p99 float64) Summary {
	d := func(x float64) time.Duration { return time.Duration(x * float64(time.Millisecond)) }
	return Summary{N: 100, Min: d(p50), P50: d(p50), P95: d(p99), P99: d(p99), Max: d(p99)}
}

// goodResults keep every promise.
func goodResults() Results {
	return Results{
		Date:    time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC),
		Machine: machine.Info{CPU: "A CPU", Cores: 2, Versions: map[string]string{"crun": "crun version 1.8.1"}},
		Lifecycle: map[string]map[string]Summary{
			"ready": {Ours: ms(6, 9), "crun run": ms(8, 12), "docker run": ms(150, 190)},
			"total": {Ours: ms(8, 11), "crun run": ms(9, 13), "docker run": ms(180, 220)},
		},
		Network:    map[string]Summary{Ours: ms(7, 9), Networked: ms(7.6, 9), Pooled: ms(1.9, 7.5), PooledNetworked: ms(2.1, 8)},
		Claim:      map[string]Summary{Ours: ms(7, 9), Pooled: ms(1.9, 7.5)},
		Burst:      []Load{{Pooled, "create", BurstN, BurstN, Outcome{Latency: ms(60, 290)}}},
		Exec:       map[string]Summary{Ours: ms(0.3, 0.9), "crun exec": ms(5, 7), Program: ms(1.2, 2), HostProgram: ms(1, 1.5)},
		DaemonCPU:  map[string]time.Duration{CPUProbe: 150 * time.Microsecond, CPUExec: 300 * time.Microsecond, CPUProbeBusy: time.Millisecond, CPUExecBusy: time.Millisecond},
		FirstByte:  map[string]Summary{Ours: ms(0.2, 3)},
		Output:     map[string]float64{Ours: 250e6},
		Files:      map[string]float64{FilesCopy: 1000e6, FilesUp: 800e6, FilesDown: 700e6},
		Snapshots:  map[string]float64{"snapshot": 222e6},
		Busy:       []Load{{Ours, "exec", 1, 9000, Outcome{PerSec: 2000}}, {Ours, "exec", 64, 20000, Outcome{PerSec: 5000}}},
		Together:   []Load{{Ours, "create", 16, 200, Outcome{PerSec: 120}}, {Ours, "destroy", 16, 200, Outcome{PerSec: 500}}},
		Throughput: []Load{{Ours, "create+destroy", 4, 300, Outcome{PerSec: 101.5}}, {"crun run", "create+destroy", 16, 300, Outcome{PerSec: 80}}},
		Rates:      []Load{{Ours, "exec", 500, 2500, Outcome{PerSec: 500, Latency: ms(0.4, 2.5)}}},
		Memory:     map[string]Memory{Ours: {N: 100, Available: 2_500_000}},
		Bullies:    map[string]Summary{Bullied: ms(2, 9)},
		Fork:       map[string]map[string]Summary{"pool": {ForkCold: ms(8, 9), ForkSettled: ms(20, 30)}},
		Density: []Density{
			{N: 1000, CreatePerSec: 50, Memory: Memory{Available: 2_400_000}},
			{N: 2000, CreatePerSec: 100, Memory: Memory{Available: 2_500_000, Slab: 700_000}, Disk: 150_000, Tasks: 11, Daemon: Usage{80_000, 1.02}, Exec: ms(1, 19)},
		},
		Restart: &Restart{N: 2000, Ready: 1250 * time.Millisecond, Exec: ms(1, 5), DestroyPerSec: 110},
	}
}

// sentences returns the promises of which results say verdict.
func sentences(r Results, verdict string) []string {
	var all []string
	for _, p := range promises {
		if p.judge(r).verdict == verdict {
			all = append(all, p.sentence)
		}
	}
	return all
}

func TestGoodResultsKeepEveryPromise(t *testing.T) {
	if got := len(sentences(goodResults(), met)); got != len(promises) {
		t.Errorf("missed: %q, not measured: %q", sentences(goodResults(), missed), sentences(goodResults(), notMeasured))
	}
}

func TestNoResultsJudgeNoPromise(t *testing.T) {
	for _, p := range promises {
		if got := p.judge(Results{}); got != (finding{notMeasured, notMeasured}) {
			t.Errorf("%s: %+v", p.sentence, got)
		}
	}
}

// TestWhatIsBadMissesItsPromise spoils good results in one way each. No other
// promise may be judged by it.
func TestWhatIsBadMissesItsPromise(t *testing.T) {
	spoils := []struct {
		promise, measured string
		spoil             func(r *Results)
	}{
		{"slower than crun", "8.100 ms, crun 8.000 ms", func(r *Results) { r.Lifecycle["ready"][Ours] = ms(8.1, 9) }},
		{"faster than docker", "14.8 times", func(r *Results) { r.Lifecycle["ready"]["docker run"] = ms(89, 90) }},
		{"a ready sandbox to the first answer: p50", "2.100 ms", func(r *Results) { r.Claim[Pooled] = ms(2.1, 7.5) }},
		{"a ready sandbox to the first answer: p99", "8.100 ms", func(r *Results) { r.Claim[Pooled] = ms(1.9, 8.1) }},
		{"a create with a network", "1.100 ms", func(r *Results) { r.Network[Networked] = ms(8.1, 9) }},
		{"a ready sandbox with a network", "0.400 ms", func(r *Results) { r.Network[PooledNetworked] = ms(2.3, 8) }},
		{"100 sessions at once", "301.0 ms, 0 failures", func(r *Results) { r.Burst[0].Outcome.Latency = ms(60, 301) }},
		{"100 sessions at once", "290.0 ms, 1 failures", func(r *Results) { r.Burst[0].Outcome.Failures = 1 }},
		{"exec of true: p50", "0.410 ms", func(r *Results) { r.Exec[Ours] = ms(0.41, 0.9) }},
		{"exec of true: p99", "1.600 ms", func(r *Results) { r.Exec[Ours] = ms(0.3, 1.6) }},
		{"a process of true", "1.40 times", func(r *Results) { r.Exec[Program] = ms(1.4, 2) }},
		{"what a command prints", "5.100 ms", func(r *Results) { r.FirstByte[Ours] = ms(5.1, 6) }},
		{"output of a command", "99 MB per second", func(r *Results) { r.Output[Ours] = 99e6 }},
		{"raw files", "59 %", func(r *Results) { r.Files[FilesDown] = 590e6 }},
		{"commands of many clients", "3999, 0 failures", func(r *Results) { r.Busy[1].Outcome.PerSec = 3999 }},
		{"commands of many clients", "5000, 1 failures", func(r *Results) { r.Busy[0].Outcome.Failures = 1 }},
		{"200 sessions", "0 failures of 200, 79 per second", func(r *Results) { r.Together[0].Outcome.PerSec = 79 }},
		{"200 sessions", "1 failures of 200, 120 per second", func(r *Results) { r.Together[0].Outcome.Failures = 1 }},
		{"an idle session", "4.10 MB", func(r *Results) { r.Memory[Ours] = Memory{Available: 4_100_000} }},
		{"an idle session", "4.50 MB", func(r *Results) { // the parts, where others freed memory
			r.Memory[Ours] = Memory{Available: -1_000_000, Anonymous: 3_000_000, Slab: 1_500_000}
		}},
		{"beside five hostile sessions", "20.1 ms", func(r *Results) { r.Bullies[Bullied] = ms(2, 20.1) }},
		{"a fork", "24.1 ms, a create 8.000 ms", func(r *Results) { r.Fork["pool"][ForkSettled] = ms(24.1, 30) }},
		{"2000 idle sessions: at most", "3.10 MB", func(r *Results) { r.Density[1].Memory.Available = 3_100_000 }},
		{"2000 idle sessions: created", "59 per second", func(r *Results) { r.Density[1].CreatePerSec = 73 }}, // of all
		{"2000 idle sessions: exec", "21.0 ms", func(r *Results) { r.Density[1].Exec = ms(1, 21) }},
		{"leave nothing behind", "1 things", func(r *Results) { r.Leftovers = []string{"mount: x"} }},
	}
	spoilt := map[string]bool{}
	for _, c := range spoils {
		r := goodResults()
		c.spoil(&r)
		got := sentences(r, missed)
		if len(got) != 1 || !strings.Contains(got[0], c.promise) {
			t.Errorf("%s, %s: missed are %q", c.promise, c.measured, got)
			continue
		}
		spoilt[got[0]] = true
		if row := fmt.Sprintf("| %s | %s | %s |", got[0], c.measured, missed); !strings.Contains(r.Markdown(), row) {
			t.Errorf("not in the report: %s", row)
		}
	}
	for _, p := range promises {
		if !spoilt[p.sentence] {
			t.Errorf("never missed: %s", p.sentence)
		}
	}
}

// TestSmallerRunsProveNothing has fewer sandboxes than promises are about.
func TestSmallerRunsProveNothing(t *testing.T) {
	r := goodResults()
	r.Together[0].N = 100
	r.Density = r.Density[:1]
	got := strings.Join(sentences(r, notMeasured), "\n")
	if strings.Count(got, "\n") != 3 || strings.Count(got, "2000 idle sessions") != 3 || strings.Count(got, "200 sessions") != 1 {
		t.Errorf("not measured:\n%s", got)
	}
	if want := "| 0 failures of 100, 120 per second | not measured |"; !strings.Contains(r.Markdown(), want) {
		t.Errorf("no %q in the report", want)
	}
}

func TestReportHasEveryTable(t *testing.T) {
	text := goodResults().Markdown()
	at := 0
	for _, want := range []string{ // in the order of the parts
		"2026-11-20 12:00 UTC. A CPU, 2 cores",
		"crun version 1.8.1",
		"| crun run | 8.000 | 8.000 | 12.0 | 12.0 | 1.33 | 9.000 | 100 |",
		"| sandkasten, HTTP, with a pool | 1.900 | 1.900 | 7.500 | 7.500 | 7.500 | 0.27 | 100 |",
		"| 60.0 | 290.0 | 290.0 | 0 |",
		"| crun exec | 5.000 | 5.000 | 7.000 | 7.000 | 7.000 | 16.67 | 100 |",
		"| sandkasten, HTTP | 0.200 | 0.200 | 3.000 | 3.000 | 3.000 | 1.00 | 100 |",
		"| sandkasten, HTTP | 250 |",
		"| cp inside the sandbox | 1000 |",
		"| snapshot | 222 |",
		"| 64 | 5000 | 0.000 | 0.000 | 0 |",
		"| sandkasten, HTTP | 200 | 0 | 120.0 | 500.0 | 1 |",
		"| clients | 4 | 16 | failures |",
		"| sandkasten, HTTP | 101.5 | - | 0 |",
		"| sandkasten, HTTP, exec | 500 | 0.400 | 2.500 |",
		"| sandkasten, HTTP | 2.50 MB |",
		"| pool | fork, settled | 20.0 | 20.0 | 30.0 | 2.50 | 100 |",
		"| 2000 | 100 | 2.50 MB | 0.00 MB | 0.70 MB | 0.00 MB | 0.08 MB | 0.15 MB | 1.02 | 11.00 | 1.000 | 19.0 |",
		"ready again after 1.25 s",
		"## Method",
	} {
		i := strings.Index(text[at:], want)
		if i < 0 {
			t.Fatalf("no %q where it belongs in the report:\n%s", want, text)
		}
		at += i
	}
	// Each row has as many cells as its table's head.
	columns := 0
	for line := range strings.Lines(text) {
		switch {
		case !strings.HasPrefix(line, "|"):
			columns = 0
		case columns == 0:
			columns = strings.Count(line, "|")
		case strings.Count(line, "|") != columns:
			t.Errorf("%d columns wanted: %s", columns-1, line)
		}
	}
}

// TestWhatWasNotMeasuredHasNoTable leaves the promises and the method.
func TestWhatWasNotMeasuredHasNoTable(t *testing.T) {
	if got := strings.Count(Results{}.Markdown(), "\n## "); got != 2 {
		t.Errorf("%d headings:\n%s", got, Results{}.Markdown())
	}
}
