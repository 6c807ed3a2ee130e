package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/test/attack/coverage"
)

// programs are what the control runs: the daemon of the build with the tag, and
// the tests of each level. Those of the driver are of that build themselves.
type programs struct {
	dir    string // of all of them, and of what a run writes
	root   string // of the repository
	daemon string
	tests  map[coverage.Level]testBinary
}

// testBinary has the tests of a level.
type testBinary struct{ program, dir string }

// build makes the programs in dir. Nothing is written into the tree: the
// runner gets into the daemon by the compiler's overlay.
func build(ctx context.Context, root, dir string) (programs, error) {
	p := programs{dir: dir, root: root, daemon: filepath.Join(dir, "sandkasten"), tests: map[coverage.Level]testBinary{
		coverage.API:    {filepath.Join(dir, "battery"), filepath.Join(root, "test", "attack")},
		coverage.Driver: {filepath.Join(dir, "driver"), filepath.Join(root, "internal", "runtime", "linux")},
	}}
	runner, overlay := filepath.Join(dir, "runner"), filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, "internal/runnerbin/bin/runner"): runner}})
	if err != nil {
		return p, err
	}
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		return p, err
	}
	for _, args := range [][]string{
		{"build", "-trimpath", "-tags=weaken", "-o", runner, "./cmd/runner"},
		{"build", "-trimpath", "-tags=weaken", "-overlay=" + overlay, "-o", p.daemon, "./cmd/sandkasten"},
		{"test", "-c", "-o", p.tests[coverage.API].program, "./test/attack"},
		{"test", "-c", "-tags=weaken", "-o", p.tests[coverage.Driver].program, "./internal/runtime/linux"},
	} {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
		if out, err := cmd.CombinedOutput(); err != nil {
			return p, fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return p, nil
}

// rowTime is what the cases of one row may take together.
const rowTime = 4 * time.Minute

// outcome is what the tests said of the cases of one row.
type outcome struct {
	red    []string // that failed
	green  []string // that passed
	absent []string // that have no test
	log    string
	took   time.Duration
}

// add adds what the tests of another level said.
func (o *outcome) add(other outcome) {
	o.red, o.green, o.absent = append(o.red, other.red...), append(o.green, other.green...), append(o.absent, other.absent...)
	o.log += other.log
	o.took += other.took
}

// wrong are the cases of a row that did not do what it says: those that should
// notice and passed, and those that should hold and failed. A case without a test
// is either.
func (o outcome) wrong(r row) (unnoticed, broken []string) {
	missing := func(ids, in []string) []string {
		return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(in, id) })
	}
	return missing(r.ids(), o.red), missing(r.holding(), o.green)
}

// runRow runs the cases of a row with that off, each at its level.
func (p programs) runRow(ctx context.Context, r row, levels map[string]coverage.Level) (outcome, error) {
	var o outcome
	for _, level := range []coverage.Level{coverage.Driver, coverage.API} {
		ids := slices.DeleteFunc(slices.Concat(r.ids(), r.holding()), func(id string) bool { return levels[id] != level })
		if len(ids) == 0 {
			continue
		}
		one, err := p.run(ctx, r.name(), p.tests[level], ids)
		if err != nil {
			return o, err
		}
		o.add(one)
	}
	return o, nil
}

// run runs cases against a daemon, or as a driver, with something off. It is not
// interrupted: the tests have to clean up.
func (p programs) run(ctx context.Context, off string, tests testBinary, ids []string) (outcome, error) {
	wrapper := filepath.Join(p.dir, "sandkasten-"+off)
	script := "#!/bin/sh\nSANDKASTEN_TEST_WEAKEN=" + strings.ReplaceAll(off, "+", ",") + " exec " + p.daemon + ` "$@"` + "\n"
	if err := os.WriteFile(wrapper, []byte(script), 0o755); err != nil { //nolint:gosec // a program
		return outcome{}, err
	}
	// One case at a time, so that what the guard sees is that case's.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), tests.program, "-test.v", "-test.count=1", "-test.parallel=1", "-test.timeout="+rowTime.String(),
		"-test.run=^Test("+strings.Join(ids, "|")+")_")
	cmd.Dir = tests.dir
	cmd.Env = append(os.Environ(), "SANDKASTEN_TEST_ROOT=1", "SANDKASTEN_ATTACK_BIN="+wrapper,
		"SANDKASTEN_TEST_WEAKEN="+strings.ReplaceAll(off, "+", ",")) // of the driver, and for the programs that the battery builds
	begin := time.Now()
	text, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return outcome{}, err
	}
	if strings.Contains(string(text), "\npanic: ") {
		return outcome{}, fmt.Errorf("the battery broke without %s:\n%s", off, text[:min(len(text), 4000)])
	}
	o := read(string(text), ids)
	o.took = time.Since(begin)
	return o, nil
}

// verdict is a test's line about one case.
var verdict = regexp.MustCompile(`(?m)^--- (PASS|FAIL): Test([A-Z][0-9]{2})_`)

// running is the line from which on a log is about a test. A parallel one is
// announced first, and goes on later.
var running = regexp.MustCompile(`^=== (?:RUN|CONT|NAME) +([^/]+)`)

// read sorts the cases by what their tests printed. One with several tests is
// red if any of them is.
func read(text string, ids []string) outcome {
	o := outcome{log: text}
	said := map[string]string{}
	for _, m := range verdict.FindAllStringSubmatch(text, -1) {
		if said[m[2]] != "FAIL" {
			said[m[2]] = m[1]
		}
	}
	for _, id := range ids {
		switch said[id] {
		case "FAIL":
			o.red = append(o.red, id)
		case "PASS":
			o.green = append(o.green, id)
		default:
			o.absent = append(o.absent, id)
		}
	}
	return o
}

// why is the first complaint of each red case, for the reader.
func (o outcome) why() []string {
	var lines []string
	last := ""
	for line := range strings.Lines(o.log) {
		line = strings.TrimSpace(line)
		if m := running.FindStringSubmatch(line); m != nil {
			last = m[1]
			continue
		}
		if strings.Contains(line, "_test.go:") && last != "" {
			lines = append(lines, last+": "+line[:min(len(line), 160)])
			last = ""
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}
