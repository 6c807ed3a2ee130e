package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

var (
	// Go, also of a subtest, where its parent's line follows it.
	goFailure = regexp.MustCompile(`^\s*--- FAIL: (\S+)`)
	// A package that did not build, or whose process broke.
	goPackage = regexp.MustCompile(`^(?:FAIL|panic:)\s+(\S+)`)
	// pytest and the test runner of Node.js.
	pyFailure   = regexp.MustCompile(`^(?:FAILED|ERROR) (\S+)`)
	nodeFailure = regexp.MustCompile(`^\s*(?:✖|not ok \d+ -) (.+)`)
	goStart     = regexp.MustCompile(`^=== RUN +(\S+)`)
	// What ran when a package's time was over, which Go says with its panic.
	goRunning = regexp.MustCompile(`^\t\t(Test\S+) \(\S+\)$`)
	goPanic   = regexp.MustCompile(`^panic: `)
	goFrame   = regexp.MustCompile(`^\t\S+_test\.go:\d+`)
)

// failures are the names of the tests that a log says have failed, each once.
func failures(log string) []string {
	var names []string
	for line := range strings.Lines(log) {
		for _, kind := range []*regexp.Regexp{goFailure, goPackage, goRunning, pyFailure, nodeFailure} {
			m := kind.FindStringSubmatch(strings.TrimRight(line, "\n"))
			if m != nil && !slices.Contains(names, m[1]) {
				names = append(names, m[1])
			}
		}
	}
	// A test that failed because a subtest did is named by that.
	return slices.DeleteFunc(names, func(name string) bool {
		return slices.ContainsFunc(names, func(other string) bool { return strings.HasPrefix(other, name+"/") })
	})
}

// Lines of a log that a failure brings to the console.
const (
	aroundFailure = 60
	endOfLog      = 30
	behindPanic   = 12
	testFrames    = 40
)

// excerpt is what a log says of each failure, and its end, for a console that
// is all that is left of a machine.
func excerpt(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Sprintf("no log: %v\n", err)
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	keep := make([]bool, len(lines))
	mark := func(from, to int) {
		for i := max(0, from); i < min(len(lines), to); i++ {
			keep[i] = true
		}
	}
	frames := 0
	for i, line := range lines {
		switch {
		case goPanic.MatchString(line):
			mark(i, i+behindPanic)
		case goFrame.MatchString(line) && frames < testFrames:
			frames++
			mark(i-1, i+1) // with the function
		}
		m := goFailure.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		// What it said stands between its start and this line with -v, else behind it.
		mark(i, i+1)
		for j := i; j >= 0; j-- {
			if start := goStart.FindStringSubmatch(lines[j]); start != nil && start[1] == m[1] {
				mark(max(j, i-aroundFailure), i)
				break
			}
		}
		for j := i + 1; j < len(lines) && j-i < aroundFailure && strings.HasPrefix(lines[j], " "); j++ {
			keep[j] = true
		}
	}
	mark(len(lines)-endOfLog, len(lines))
	var out strings.Builder
	for i, line := range lines {
		if keep[i] {
			fmt.Fprintf(&out, "  | %.400s\n", line)
		} else if i > 0 && keep[i-1] {
			out.WriteString("  | ...\n")
		}
	}
	return out.String()
}

// summary is the table at the end: the parts that failed last, where a reader
// of a console looks.
func summary(results []result, whole time.Duration) string {
	results = slices.Clone(results)
	rank := map[state]int{passed: 0, unsteady: 1, skipped: 2, failed: 3}
	slices.SortStableFunc(results, func(a, b result) int { return rank[a.state] - rank[b.state] })
	var out strings.Builder
	fmt.Fprintf(&out, "\n%-24s %8s %8s %8s %8s  %s\n", "part", "minutes", "entry", "cpu", "entry", "result")
	used := 0.0
	for _, r := range results {
		fmt.Fprintf(&out, "%-24s %8.1f %8.1f %8.1f %8.1f  %s\n", r.name, r.took.Minutes(), r.minutes, r.used.Minutes(), r.cpu, r.state)
		used += r.used.Minutes()
		log := logOf(r.part)
		switch r.state {
		case unsteady:
			log = firstLogOf(r.part)
		case failed:
		default:
			continue
		}
		if r.err != nil {
			fmt.Fprintf(&out, "    %v\n", r.err)
		}
		if text, err := os.ReadFile(log); err == nil {
			for _, name := range failures(string(text)) {
				fmt.Fprintf(&out, "    %s\n", name)
			}
			fmt.Fprintf(&out, "    log: %s\n", log)
		}
	}
	fmt.Fprintf(&out, "%-24s %8.1f %8s %8.1f\n", "whole run", whole.Minutes(), "", used)
	return out.String()
}
