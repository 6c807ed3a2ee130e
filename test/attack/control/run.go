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
)

// programs are what the control runs: the daemon of the build with the tag, and
// the battery.
type programs struct {
	dir     string // of all of them, and of what a run writes
	root    string // of the repository
	daemon  string
	battery string
}

// build makes the programs in dir. Nothing is written into the tree: the
// runner gets into the daemon by the compiler's overlay.
func build(ctx context.Context, root, dir string) (programs, error) {
	p := programs{dir: dir, root: root, daemon: filepath.Join(dir, "sandkasten"), battery: filepath.Join(dir, "battery")}
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
		{"test", "-c", "-o", p.battery, "./test/attack"},
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

// outcome is what the battery said of the cases of one row.
type outcome struct {
	red    []string // that failed, as they should
	green  []string // that passed: they do not notice
	absent []string // that the battery does not have
	log    string
	took   time.Duration
}

// run runs the battery's cases for a row against a daemon with that off. It is
// not interrupted: the battery has to clean up.
func (p programs) run(ctx context.Context, off string, ids []string) (outcome, error) {
	wrapper := filepath.Join(p.dir, "sandkasten-"+off)
	script := "#!/bin/sh\nSANDKASTEN_TEST_WEAKEN=" + strings.ReplaceAll(off, "+", ",") + " exec " + p.daemon + ` "$@"` + "\n"
	if err := os.WriteFile(wrapper, []byte(script), 0o755); err != nil { //nolint:gosec // a program
		return outcome{}, err
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), p.battery, "-test.v", "-test.count=1", "-test.timeout="+rowTime.String(),
		"-test.run=^Test("+strings.Join(ids, "|")+")_")
	cmd.Dir = filepath.Join(p.root, "test", "attack")
	cmd.Env = append(os.Environ(), "SANDKASTEN_TEST_ROOT=1", "SANDKASTEN_ATTACK_BIN="+wrapper,
		"SANDKASTEN_TEST_WEAKEN="+strings.ReplaceAll(off, "+", ",")) // for the programs that the battery builds
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

// verdict is the battery's line about one case.
var verdict = regexp.MustCompile(`(?m)^--- (PASS|FAIL): Test([A-Z][0-9]{2})_`)

// read sorts the cases by what the battery printed. One with several tests is
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
		if name, ok := strings.CutPrefix(line, "=== RUN"); ok {
			last, _, _ = strings.Cut(strings.TrimSpace(name), "/")
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
