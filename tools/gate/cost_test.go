package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The whole run was half an hour once and an hour later, because no test failed
// when it grew.
func TestTheRunStaysShort(t *testing.T) {
	sum := 0.0
	for _, p := range parts {
		sum += p.cpu
	}
	if sum > mostCPU {
		t.Errorf("the parts of a run need %.1f minutes of a processor, and %d are all there are: take from another part, or add to the long tier", sum, mostCPU)
	}
	for _, p := range tier {
		if p.minutes > mostSlice {
			t.Errorf("slice %s takes %g minutes, and %d are all there are: cut it in two", p.name, p.minutes, mostSlice)
		}
	}
}

// Entries are what the last recorded run says, or it is red until they are.
func TestEntriesAreHonest(t *testing.T) {
	r, err := lastRecord()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		if m := r.Parts[p.name]; m.CPU > mostOver*p.cpu && m.CPU > p.cpu+leastOver {
			t.Errorf("%s needed %.1f minutes of a processor on %s, and its entry says %g: find what grew, or correct the entry", p.name, m.CPU, m.Date, p.cpu)
		}
	}
	for _, p := range tier {
		if m := r.Parts[p.name]; m.Minutes > mostOver*p.minutes || m.Minutes > mostSlice {
			t.Errorf("%s took %.1f minutes on %s, and its entry says %g: cut it in two, or correct the entry", p.name, m.Minutes, m.Date, p.minutes)
		}
	}
}

func TestContributingHasTheRecord(t *testing.T) {
	r, err := lastRecord()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join("../..", tableFile))
	if err != nil {
		t.Fatal(err)
	}
	want, err := withTable(string(page), costTable(r))
	if err != nil {
		t.Fatal(err)
	}
	if want != string(page) {
		t.Errorf("the table in %s is not what the gate writes: go run ./tools/gate -record .", tableFile)
	}
}

func TestAPartThatGrewFails(t *testing.T) {
	minutes := func(m float64) time.Duration { return time.Duration(m * float64(time.Minute)) }
	for name, c := range map[string]struct {
		used float64 // of the part, whose entry says 4
		pace float64 // of the others
		want state
	}{
		"as its entry says":                      {used: 4, pace: 1, want: passed},
		"less than two and a half times":         {used: 9.9, pace: 1, want: passed},
		"more than two and a half times":         {used: 10.1, pace: 1, want: failed},
		"on a machine that is slower for all":    {used: 17, pace: 1.8, want: passed},
		"grown on a slower machine":              {used: 19, pace: 1.8, want: failed},
		"a faster machine does not ask for less": {used: 5, pace: 0.5, want: passed},
	} {
		t.Run(name, func(t *testing.T) {
			results := []result{{part: part{name: "grown", minutes: 4, cpu: 4}, state: passed, used: minutes(c.used)}}
			for range 4 {
				results = append(results, result{part: part{name: "other", minutes: 5, cpu: 5}, state: passed, used: minutes(5 * c.pace)})
			}
			overspent(results)
			if r := results[0]; r.state != c.want || (r.err != nil) != (c.want == failed) {
				t.Errorf("%s: %v, want %s", r.state, r.err, c.want)
			}
			for _, r := range results[1:] {
				if r.state != passed {
					t.Errorf("another part: %v", r.err)
				}
			}
		})
	}
	small := []result{{part: part{name: "small", minutes: 1, cpu: 0.1}, state: passed, used: minutes(0.9)}}
	if overspent(small); small[0].state != passed {
		t.Errorf("%v; some seconds more are no growth", small[0].err)
	}
}

// What a run says of its parts goes into the record: of a part that passed, and
// of regular parts only if all of them shared the machine.
func TestRecordKeepsTheNewestOfEachPart(t *testing.T) {
	start := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	ran := []result{
		{part: part{name: "test:go", minutes: 1, cpu: 1}, state: passed, took: 90 * time.Second, used: time.Minute},
		{part: part{name: "test:web", minutes: 1, cpu: 1}, state: failed, took: time.Second, err: errors.New("exit status 1")},
		{part: part{name: "long:mcp", minutes: 1, cpu: 1}, state: passed, took: 3 * time.Minute, used: time.Minute},
	}
	old := record{Parts: map[string]measurement{"test:web": {Date: "2026-01-01", Minutes: 7}, "test:gone": {Date: "2026-01-01"}}}
	some := old.with(measure(ran, start, false))
	if _, ok := some.Parts["test:go"]; ok || some.Whole != nil {
		t.Error("a run of some parts says what a part costs in a whole run")
	}
	if got := some.Parts["long:mcp"]; got != (measurement{Date: "2026-05-04", Minutes: 3, CPU: 1}) {
		t.Errorf("the slice: %+v", got)
	}
	whole := old.with(measure(ran, start, true))
	if got := whole.Parts["test:go"]; got != (measurement{Date: "2026-05-04", Minutes: 1.5, CPU: 1}) {
		t.Errorf("the part: %+v", got)
	}
	if whole.Whole != nil {
		t.Error("a run in which a part failed says what a whole run takes")
	}
	ran[1].state = passed
	if green := old.with(measure(ran, start, true)); green.Whole == nil || green.Whole.CPU != 2 {
		t.Errorf("the whole run: %+v", green.Whole)
	}
	if got := whole.Parts["test:web"]; got.Minutes != 7 {
		t.Errorf("a part that failed took the place of one that passed: %+v", got)
	}
	if _, ok := whole.Parts["test:gone"]; ok {
		t.Error("a part that is no more is in the record")
	}
	if table := costTable(whole); !strings.Contains(table, "| `test:go` |") || !strings.Contains(table, "| 1.5 | 1.0 | 2026-05-04 |") || !strings.Contains(table, "never") {
		t.Errorf("the table lacks what is recorded:\n%s", table)
	}
}
