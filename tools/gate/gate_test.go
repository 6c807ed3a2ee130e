package main

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestAPartThatFailsDoesNotKeepOthersFromRunning(t *testing.T) {
	t.Chdir(t.TempDir())
	chosen := []part{
		{name: "base", minutes: 1, cpu: 2},
		{name: "bad", minutes: 1, cpu: 1, needs: []string{"base"}},
		{name: "behind", minutes: 1, cpu: 1, needs: []string{"bad"}},
		{name: "other", minutes: 1, cpu: 1, needs: []string{"base", "absent"}},
	}
	var out strings.Builder
	results := schedule(t.Context(), chosen, 2, func(_ context.Context, p part) (time.Duration, error) {
		if p.name == "bad" {
			return 0, errors.New("exit status 1")
		}
		return 0, nil
	}, &out)
	got := map[string]state{}
	for _, r := range results {
		got[r.name] = r.state
	}
	for name, want := range map[string]state{"base": passed, "bad": failed, "behind": skipped, "other": passed} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q\n%s", name, got[name], want, out.String())
		}
	}
}

func TestPartsShareTheMachine(t *testing.T) {
	chosen := []part{
		{name: "both", minutes: 1, cpu: 2},
		{name: "left", minutes: 1, cpu: 1},
		{name: "right", minutes: 1, cpu: 1},
		{name: "third", minutes: 1, cpu: 1},
		{name: "behind", background: true},
		{name: "behind too", background: true},
		{name: "alone", minutes: 1, cpu: 1, alone: true},
	}
	var mu sync.Mutex
	var now []string
	results := schedule(t.Context(), chosen, 2, func(_ context.Context, p part) (time.Duration, error) {
		mu.Lock()
		now = append(now, p.name)
		beside := slices.Clone(now)
		mu.Unlock()
		time.Sleep(10 * time.Millisecond)
		mu.Lock()
		now = slices.DeleteFunc(now, func(name string) bool { return name == p.name })
		mu.Unlock()
		cores, behind := 0.0, 0
		for _, name := range beside {
			q := chosen[slices.IndexFunc(chosen, func(c part) bool { return c.name == name })]
			if q.background {
				behind++
			} else {
				cores += q.cores()
			}
			if q.alone && len(beside) > 1 {
				t.Errorf("beside %s, which measures: %v", name, beside)
			}
		}
		if cores > 2+slack || behind > 1 {
			t.Errorf("at once: %v", beside)
		}
		return 0, nil
	}, &strings.Builder{})
	if len(results) != len(chosen) {
		t.Errorf("%d of %d parts have a result", len(results), len(chosen))
	}
}

// What is too large for the machine runs by itself.
// Every part of every run gets its turn: none waits for room that sums of fractions
// never say is there.
func TestEveryPartStarts(t *testing.T) {
	for _, slice := range tier {
		synctest.Test(t, func(t *testing.T) {
			chosen := append(slices.Clone(parts), slice)
			results := schedule(t.Context(), chosen, 2, func(_ context.Context, p part) (time.Duration, error) {
				time.Sleep(time.Duration(p.minutes * (0.5 + rand.Float64()) * float64(time.Minute)))
				return 0, nil
			}, io.Discard)
			if len(results) != len(chosen) {
				t.Errorf("with %s %d of %d parts ran", slice.name, len(results), len(chosen))
			}
		})
	}
}

func TestALargePartRunsOnASmallMachine(t *testing.T) {
	results := schedule(t.Context(), []part{{name: "large", minutes: 1, cpu: 8}}, 1, func(context.Context, part) (time.Duration, error) { return 0, nil }, &strings.Builder{})
	if len(results) != 1 || results[0].state != passed {
		t.Errorf("%+v", results)
	}
}

func TestPartsThatFailedRunAgain(t *testing.T) {
	bad, other, third := part{name: "bad", minutes: 1, cpu: 1}, part{name: "other", minutes: 1, cpu: 1}, part{name: "third", minutes: 1, cpu: 1}
	broken := errors.New("exit status 1")
	for name, c := range map[string]struct {
		results []result
		log     string
		since   time.Duration
		second  error
		want    state
		runs    int
	}{
		"passes":            {results: []result{{part: bad, state: failed, err: broken}, {part: other, state: passed}}, want: unsteady, runs: 1},
		"fails again":       {results: []result{{part: bad, state: failed, err: broken}, {part: other, state: passed}}, second: broken, want: failed, runs: 1},
		"another failed":    {results: []result{{part: bad, state: failed, err: broken}, {part: other, state: failed, err: broken}}, want: unsteady, runs: 2},
		"both fail again":   {results: []result{{part: bad, state: failed, err: broken}, {part: other, state: failed, err: broken}}, second: broken, want: failed, runs: 1},
		"two others failed": {results: []result{{part: bad, state: failed, err: broken}, {part: other, state: failed}, {part: third, state: failed}}, want: failed},
		"another needed it": {results: []result{{part: bad, state: failed, err: broken}, {part: other, state: skipped}}, want: failed},
		"a data race":       {results: []result{{part: bad, state: failed, err: broken}}, log: "WARNING: DATA RACE\n", want: failed},
		"nothing is timed":  {results: []result{{part: part{name: "bad", background: true}, state: failed, err: broken}}, want: failed},
		"no time left":      {results: []result{{part: bad, state: failed, err: broken, took: time.Minute}}, since: lastAgain, want: failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.MkdirAll(logDir, 0o700); err != nil {
				t.Fatal(err)
			}
			for _, p := range []part{bad, other} {
				if err := os.WriteFile(logOf(p), []byte(c.log+verboseLog), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			runs := 0
			again(t.Context(), c.results, c.since, func(context.Context, part) (time.Duration, error) {
				runs++
				return 0, c.second
			}, &strings.Builder{})
			if got := c.results[0].state; got != c.want || runs != c.runs {
				t.Errorf("%s after %d more runs, want %s after %d", got, runs, c.want, c.runs)
			}
			if got := summary(c.results, time.Hour); !strings.Contains(got, "exit status 1") || c.want == unsteady && !strings.Contains(got, "TestB/one") {
				t.Errorf("the summary hides what failed:\n%s", got)
			}
		})
	}
}

const verboseLog = `=== RUN   TestA
--- PASS: TestA (0.00s)
=== RUN   TestB
=== RUN   TestB/one
    b_test.go:7: one is wrong
=== RUN   TestB/two
--- FAIL: TestB (0.00s)
    --- FAIL: TestB/one (0.00s)
    --- PASS: TestB/two (0.00s)
FAIL
FAIL	example.org/b	0.002s
FAILED tests/test_c.py::test_c - assert 1 == 2
✖ a stream goes on (3ms)
`

const timedOutLog = "panic: test timed out after 1s\n\trunning tests:\n\t\tTestC/one (1s)\n\ngoroutine 1 [running]:\ntesting.(*M).startAlarm.func1()\n" +
	"example.org/c.TestC(0x0)\n\t/src/c/c_test.go:7 +0x1d\n"

// A test that ran out of time has no line of its own.
func TestHangIsNamed(t *testing.T) {
	if got := failures(timedOutLog); !slices.Contains(got, "TestC/one") {
		t.Errorf("named are %q", got)
	}
	file := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(file, []byte(timedOutLog+strings.Repeat("\truntime/proc.go:1\n", 500)), 0o600); err != nil {
		t.Fatal(err)
	}
	got := excerpt(file)
	for _, want := range []string{"TestC/one (1s)", "c_test.go:7"} {
		if !strings.Contains(got, want) {
			t.Errorf("the excerpt has no %q:\n%s", want, got)
		}
	}
}

func TestFailuresAreNamed(t *testing.T) {
	want := []string{"TestB/one", "example.org/b", "tests/test_c.py::test_c", "a stream goes on (3ms)"}
	if got := failures(verboseLog); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestExcerptSaysWhatFailedAndWhy(t *testing.T) {
	padding := strings.Repeat("quiet\n", 500)
	file := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(file, []byte(padding+verboseLog+padding), 0o600); err != nil {
		t.Fatal(err)
	}
	got := excerpt(file)
	for _, want := range []string{"b_test.go:7: one is wrong", "--- FAIL: TestB/one", "quiet"} {
		if !strings.Contains(got, want) {
			t.Errorf("the excerpt has no %q:\n%s", want, got)
		}
	}
	if n := strings.Count(got, "\n"); n > 2*aroundFailure+endOfLog {
		t.Errorf("the excerpt has %d lines", n)
	}
}

func TestSummaryEndsWithWhatFailed(t *testing.T) {
	t.Chdir(t.TempDir())
	p := part{name: "test:b"}
	if err := os.MkdirAll(logDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(logOf(p), []byte(verboseLog), 0o600); err != nil {
		t.Fatal(err)
	}
	got := summary([]result{{part: p, state: failed, err: errors.New("exit status 1")}, {part: part{name: "lint"}, state: passed}}, time.Hour)
	for _, want := range []string{"lint", "FAILED", "exit status 1", "TestB/one", logOf(p), "60.0"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Index(got, "lint") > strings.Index(got, "FAILED") {
		t.Errorf("what failed is not last:\n%s", got)
	}
}

func TestTableOfParts(t *testing.T) {
	all := slices.Concat(parts, tier)
	seen := map[string]bool{}
	for _, p := range all {
		if seen[p.name] || p.what == "" || p.minutes == 0 || p.cpu == 0 {
			t.Errorf("part %q is there twice or lacks what it guards, its minutes or its share of the processors", p.name)
		}
		seen[p.name] = true
		if _, err := pick(all, []string{p.name}); err != nil {
			t.Error(err)
		}
	}
	if _, err := pick(all, []string{"none such"}); err == nil {
		t.Error("a part that is not there was picked")
	}
}

// A slice whose last run is recorded has no turn before the older ones.
func TestEverySliceHasItsTurn(t *testing.T) {
	seen := map[string]bool{}
	r := record{}
	for n := range 1000 {
		slice := turn(strings.Repeat("a", n), tier, r)
		seen[slice.name] = true
		r = r.with(record{Parts: map[string]measurement{slice.name: {Date: time.Unix(0, 0).AddDate(0, 0, n).Format(time.DateOnly)}}})
		if n < len(tier)/2 && len(seen) != n+1 {
			t.Fatalf("%d runs had %d slices: one ran again while others had never run", n+1, len(seen))
		}
	}
	if len(seen) != len(tier) {
		t.Errorf("of %d slices %d have a turn", len(tier), len(seen))
	}
	if first, again := turn("tree", tier, r), turn("tree", tier, r); first.name != again.name {
		t.Error("one tree has two slices")
	}
}

func TestPreflightAsksTheDoctor(t *testing.T) {
	var names []string
	for _, f := range doctorFacts() {
		names = append(names, f.name)
	}
	if want := []string{"kernel", "cgroups"}; !slices.Equal(names, want) {
		t.Errorf("the doctor was asked about %q, want %q", names, want)
	}
}

func TestPreflightFindsWhatThisHostLacks(t *testing.T) {
	if f := diskFact(t.TempDir(), 1<<30); f.problem == "" {
		t.Errorf("an exabyte is free: %s", f.value)
	}
	if f := diskFact("/no/such/directory", 1); f.problem == "" {
		t.Error("a directory that is not there has room")
	}
}

// The jobs on GitHub are the same parts.
func TestTheWorkflowHasAllParts(t *testing.T) {
	text, err := os.ReadFile("../../.github/workflows/ci.yml")
	if err != nil {
		t.Fatal(err)
	}
	_, matrix, _ := strings.Cut(string(text), "        part:\n")
	matrix, _, _ = strings.Cut(matrix, "    steps:\n")
	var jobs []string
	for line := range strings.Lines(matrix) {
		jobs = append(jobs, strings.Split(strings.TrimSpace(strings.TrimLeft(line, " -")), ",")...)
	}
	for _, p := range parts {
		if p.name != "build" && !slices.Contains(jobs, p.name) { // which the others need
			t.Errorf("no job of the workflow runs %s", p.name)
		}
	}
	if _, err := pick(slices.Concat(parts, tier), slices.DeleteFunc(jobs, func(name string) bool { return name == "slice" })); err != nil {
		t.Error(err)
	}
}
