package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/test/bench/machine"
)

func ms(p50, p99 float64) summary {
	d := func(x float64) time.Duration { return time.Duration(x * float64(time.Millisecond)) }
	return summary{N: 100, Min: d(p50), P50: d(p50), P95: d(p99), P99: d(p99), Max: d(p99)}
}

// goodResults meet every promise.
func goodResults() results {
	ours := (&sandkastenSubject{}).name()
	return results{
		Date:    time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC),
		Machine: machine.Info{CPU: "A CPU", Cores: 2, Versions: map[string]string{"crun": "crun version 1.8.1"}},
		Lifecycle: map[string]map[string]summary{
			"ready": {ours: ms(6, 9), "crun run": ms(8, 12), "docker run": ms(150, 190)},
			"total": {ours: ms(8, 11), "crun run": ms(9, 13), "docker run": ms(180, 220)},
		},
		Claim: map[string]summary{ours: ms(7, 9), pooledName: ms(1.9, 7.5)},
		Burst: []loadResult{{pooledName, "create", burstN, burstN, outcome{Latency: ms(60, 290)}}},
		Exec: map[string]summary{
			ours: ms(0.3, 0.9), "crun exec": ms(5, 7), programName: ms(1.2, 2), hostProgramName: ms(1, 1.5),
		},
		FirstByte:  map[string]summary{ours: ms(0.2, 3)},
		Output:     map[string]float64{ours: 250e6},
		Files:      map[string]float64{filesCopy: 1000e6, filesUp: 800e6, filesDown: 700e6},
		Busy:       []loadResult{{ours, "exec", 1, 9000, outcome{PerSec: 2000}}, {ours, "exec", 64, 20000, outcome{PerSec: 5000}}},
		Together:   []loadResult{{ours, "create", 16, 200, outcome{PerSec: 120}}, {ours, "destroy", 16, 200, outcome{PerSec: 500}}},
		Throughput: []loadResult{{ours, "create+destroy", 4, 300, outcome{PerSec: 101.5}}},
		Rates:      []loadResult{{ours, "exec", 500, 2500, outcome{PerSec: 500, Latency: ms(0.4, 2.5)}}},
		Memory:     map[string]memory{ours: {N: 100, Available: 2_500_000}},
		Fork:       map[string]map[string]summary{"pool": {coldName: ms(8, 9), settledName: ms(20, 30)}},
		Density: []density{
			{N: 1000, CreatePerSec: 50, Memory: memory{Available: 2_400_000}},
			{N: 2000, CreatePerSec: 100, Memory: memory{Available: 2_500_000, Slab: 700_000}, Disk: 150_000, Tasks: 11, Daemon: usage{80_000, 1.02}, Exec: ms(1, 19)},
		},
		Restart: &restart{N: 2000, Ready: 1250 * time.Millisecond, Exec: ms(1, 5), DestroyPerSec: 110},
	}
}

func verdicts(r results) string {
	var all []string
	for _, e := range expectations(r) {
		all = append(all, e.verdict)
	}
	return strings.Join(all, " ")
}

const promises = 19

func TestExpectations(t *testing.T) {
	if got := verdicts(goodResults()); got != strings.TrimSpace(strings.Repeat("met ", promises)) {
		t.Errorf("good results: %s", got)
	}
	ours := (&sandkastenSubject{}).name()
	bad := goodResults()
	bad.Lifecycle["ready"][ours] = ms(11, 12)
	bad.Exec[ours] = ms(0.5, 2.1)
	bad.Claim[pooledName] = ms(2.1, 8.1)
	bad.Burst[0].Outcome.Failures = 1
	bad.Memory[ours] = memory{Available: 4_000_001}
	bad.Together[0].Outcome.Failures = 1
	bad.Leftovers = []string{"mount: x"}
	bad.Exec[programName] = ms(1.4, 2)
	bad.Busy[0].Outcome.Failures = 1
	bad.FirstByte[ours] = ms(5.1, 6)
	bad.Output[ours] = 99e6
	bad.Files[filesDown] = 599e6
	bad.Fork["pool"][settledName] = ms(24.1, 30)
	bad.Density[1] = density{N: 2000, CreatePerSec: 74, Memory: memory{Available: 3_000_001}, Exec: ms(1, 21)} // 59.7 of all
	if got := verdicts(bad); got != strings.TrimSpace(strings.Repeat("MISSED ", promises)) {
		t.Errorf("bad results: %s", got)
	}
	few := goodResults()
	few.Together[0].N = 100
	if e := expectations(few)[5]; e.verdict != notMeasured || !strings.Contains(e.measured, "100") {
		t.Errorf("100 sessions instead of 200: %+v", e)
	}
	fewIdle := goodResults()
	fewIdle.Density = fewIdle.Density[:1]
	if e := expectations(fewIdle)[15]; e.verdict != notMeasured {
		t.Errorf("1000 idle sessions instead of 2000: %+v", e)
	}
	noisy := goodResults()
	noisy.Memory[ours] = memory{Available: -1_000_000, Anonymous: 3_000_000, Slab: 1_500_000}
	if e := expectations(noisy)[4]; e.verdict != "MISSED" {
		t.Errorf("parts above the limit, MemAvailable below zero: %+v", e)
	}
	if got := verdicts(results{}); strings.Count(got, notMeasured) != promises {
		t.Errorf("no results: %s", got)
	}
}

func TestReportHasEveryTable(t *testing.T) {
	text := report(goodResults())
	for _, want := range []string{
		"2026-11-20 12:00 UTC. A CPU, 2 cores",
		"crun version 1.8.1",
		"| crun run | 8.000 | 8.000 | 12.0 | 12.0 | 1.33 | 9.000 | 100 |",
		"| crun exec | 5.000 | 5.000 | 7.000 | 7.000 | 7.000 | 16.67 | 100 |",
		"| sandkasten, HTTP | 200 | 0 | 120.0 | 500.0 | 1 |",
		"| sandkasten, HTTP | - | - | 101.5 | - | - | 0 |",
		"| sandkasten, HTTP, exec | 500 | 0.400 | 2.500 |",
		"| sandkasten, HTTP | 2.50 MB |",
		"| sandkasten, HTTP | 0.200 | 0.200 | 3.000 | 3.000 | 3.000 | 1.00 | 100 |",
		"| sandkasten, HTTP | 250 |",
		"| cp inside the sandbox | 1000 |",
		"| 2000 | 100 | 2.50 MB | 0.00 MB | 0.70 MB | 0.00 MB | 0.08 MB | 0.15 MB | 1.02 | 11.00 | 1.000 | 19.0 |",
		"ready again after 1.25 s",
		"| 64 | 5000 | 0.000 | 0.000 | 0 |",
		"| sandkasten, HTTP, with a pool | 1.900 | 1.900 | 7.500 | 7.500 | 7.500 | 0.27 | 100 |",
		"| 60.0 | 290.0 | 290.0 | 0 |",
		"## Method",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the report:\n%s", want, text)
		}
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

func TestPublishWritesTheReportOnlyWhenItIsWhole(t *testing.T) {
	dir := t.TempDir()
	o := options{report: filepath.Join(dir, "benchmarks.md"), json: filepath.Join(dir, "results.json"), only: []string{"crun"}}
	if err := publish(o, goodResults()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(o.report); err == nil {
		t.Error("a part was published as the whole")
	}
	var back results
	if err := json.Unmarshal([]byte(machine.Text(o.json)), &back); err != nil || verdicts(back) != verdicts(goodResults()) {
		t.Errorf("results.json: %v, %s", err, verdicts(back))
	}
	o.only, o.scale = nil, 0.5
	if err := publish(o, goodResults()); err != nil || machine.Text(o.report) != "" {
		t.Errorf("a run with fewer rounds was published: %v", err)
	}
	o.scale = 1
	if err := publish(o, goodResults()); err != nil || machine.Text(o.report) == "" {
		t.Errorf("the whole was not published: %v", err)
	}
}

func TestParseOptions(t *testing.T) {
	o, err := parseOptions([]string{"-parts", "create,exec", "-only", "crun", "-scale", "0.5", "-seed", "7"})
	if err != nil || len(o.parts) != 2 || !o.wants("crun run") || o.wants("runc run") || o.seed != 7 {
		t.Errorf("%+v, %v", o, err)
	}
	for _, args := range [][]string{{"-parts", "creat"}, {"-scale", "0"}, {"extra"}} {
		if _, err := parseOptions(args); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}
