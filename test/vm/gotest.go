package vm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/test/vm/guest"
)

// SourceDir is where a machine has a test package's data, by import path, and
// BinDir where it has the tests and the programs that they start.
const (
	SourceDir = "/src"
	BinDir    = "/opt/sandkasten/bin"
)

// Suite is the Go tests that a machine runs, and the scripts that it runs after them.
type Suite struct {
	Packages []TestPackage
	Env      []string      // of the packages
	Timeout  time.Duration // of each package; after it the tests print their goroutines and fail
	Scripts  []Script

	// Progress is called with a line about each test, subtests aside, when it
	// ends, and with each heading that a script prints. It is not called any more
	// when RunSuite has returned.
	Progress func(line string)
}

// Script is a job that passes if its exit code is 0.
type Script struct {
	Name string
	Job  guest.Job
}

// Marks at the beginnings of the lines that Progress gets: of a Go test that ends, and
// of a heading in a script's output.
const (
	testEnds = "\x16--- "
	heading  = "== "
)

// Outcome is how one test or subtest ended, or, where Test is empty, one
// package or script.
type Outcome struct {
	Package string
	Test    string
	Action  string // "pass", "fail" or "skip"
	Output  string
}

// RunSuite compiles the packages' tests into dir, which is the caller's to
// remove, runs them in the machine one package after the other and then the
// scripts, and returns how each of them ended. After an error the outcomes until
// then are returned too.
func (m Machine) RunSuite(ctx context.Context, dir string, suite Suite) ([]Outcome, error) {
	files := maps.Clone(m.Files)
	if files == nil {
		files = map[string]string{}
	}
	m.Files, m.Jobs = files, nil
	for _, p := range suite.Packages {
		binary := p.ImportPath + ".test"
		if err := p.compileTests(ctx, filepath.Join(dir, binary)); err != nil {
			return nil, err
		}
		m.Files[path.Join(BinDir, binary)] = filepath.Join(dir, binary)
		m.Jobs = append(m.Jobs, guest.Job{
			Args: []string{
				path.Join(BinDir, binary), "-test.v=test2json", "-test.parallel=1", // an emulated processor is slow enough
				"-test.timeout=" + suite.Timeout.String(), "-test.run=" + p.Run, "-test.skip=" + p.Skip,
			},
			Env: suite.Env,
			Dir: path.Join(SourceDir, p.ImportPath),
			// The tests end themselves at their timeout, and tell more then.
			Timeout: suite.Timeout + time.Minute,
		})
		if err := m.addTestdata(p); err != nil {
			return nil, err
		}
	}
	for _, s := range suite.Scripts {
		m.Jobs = append(m.Jobs, s.Job)
	}
	outputs := make([]transcript, len(m.Jobs))
	ends := make([]*guest.End, len(m.Jobs))
	runErr := m.Run(ctx, func(ev guest.Event) {
		outputs[ev.Job].Write(ev.Output)
		name, mark := suite.jobName(ev.Job)
		for _, line := range outputs[ev.Job].marked(mark) {
			suite.Progress(name + " " + line)
		}
		if ev.End != nil {
			ends[ev.Job] = ev.End
		}
	})
	var all []Outcome
	for i, p := range suite.Packages {
		outcomes, err := parseTests(ctx, p.ImportPath, &outputs[i], ends[i])
		if err != nil {
			return all, err
		}
		all = append(all, outcomes...)
	}
	for i, s := range suite.Scripts {
		at := len(suite.Packages) + i
		all = append(all, s.outcome(outputs[at].String(), ends[at]))
	}
	return all, runErr
}

// jobName is the name of a job, and the mark of the lines that tell how far it is.
func (s Suite) jobName(job int) (name, mark string) {
	if job < len(s.Packages) {
		return s.Packages[job].ImportPath, testEnds
	}
	return s.Scripts[job-len(s.Packages)].Name, heading
}

// outcome is how a script ended; end is nil if it never did.
func (s Script) outcome(output string, end *guest.End) Outcome {
	o := Outcome{Package: s.Name, Action: "fail", Output: output}
	switch {
	case end == nil:
		o.Output += "the machine stopped before the script ended\n"
	case end.Code != 0 || end.TimedOut:
		o.Output += failureOf(*end)
	default:
		o.Action = "pass"
	}
	return o
}

// transcript is what a job has printed until now.
type transcript struct {
	bytes.Buffer
	told int // how much of it has been looked at
}

// marked returns the lines, new since the last call, that begin with mark, without it.
// It leaves out those by which subtests end.
func (t *transcript) marked(mark string) []string {
	var lines []string
	for {
		line, _, whole := bytes.Cut(t.Bytes()[t.told:], []byte("\n"))
		if !whole {
			return lines
		}
		t.told += len(line) + 1
		text, ok := strings.CutPrefix(string(line), mark)
		if ok && (mark != testEnds || !strings.Contains(text, "/")) {
			lines = append(lines, text)
		}
	}
}

// addTestdata gives the machine what a package's tests read from their
// directory.
func (m Machine) addTestdata(p TestPackage) error {
	sources, err := filepath.Glob(filepath.Join(p.Dir, "*.go"))
	if err != nil {
		return err
	}
	for _, file := range append(sources, filepath.Join(p.Dir, "testdata")) {
		if exists(file) {
			m.Files[path.Join(SourceDir, p.ImportPath, filepath.Base(file))] = file
		}
	}
	return nil
}

// parseTests reads what a test binary printed under -test.v=test2json. A
// package whose process failed has failed even if no test says so; end is nil
// if it never ended.
func parseTests(ctx context.Context, pkg string, output io.Reader, end *guest.End) ([]Outcome, error) {
	cmd := exec.CommandContext(ctx, "go", "tool", "test2json", "-p", pkg)
	cmd.Stdin = output
	events, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go tool test2json: %w", err)
	}
	outcomes, err := collect(pkg, bytes.NewReader(events))
	if err != nil {
		return nil, err
	}
	whole := outcomes[""]
	switch {
	case end == nil:
		whole.Action = "fail"
		whole.Output += "the machine stopped before the package's tests ended\n"
	case end.Code != 0 || end.TimedOut:
		whole.Action = "fail"
		whole.Output += failureOf(*end)
	}
	outcomes[""] = whole
	var sorted []Outcome
	for _, name := range slices.Sorted(maps.Keys(outcomes)) {
		sorted = append(sorted, outcomes[name])
	}
	return sorted, nil
}

// failureOf says how a job that failed ended.
func failureOf(end guest.End) string {
	return fmt.Sprintf("exit code %d after %v, killed at the time limit: %v\n", end.Code, end.Duration.Round(time.Millisecond), end.TimedOut)
}

// collect folds a stream of test2json events into an outcome per test. A test
// that began and did not end has failed.
func collect(pkg string, events io.Reader) (map[string]Outcome, error) {
	outcomes := map[string]Outcome{"": {Package: pkg, Action: "fail"}}
	in := json.NewDecoder(events)
	for {
		var ev struct{ Action, Test, Output string }
		if err := in.Decode(&ev); err == io.EOF {
			return outcomes, nil
		} else if err != nil {
			return nil, fmt.Errorf("read test events of %s: %w", pkg, err)
		}
		o, ok := outcomes[ev.Test]
		if !ok {
			o = Outcome{Package: pkg, Test: ev.Test, Action: "fail"}
		}
		switch ev.Action {
		case "pass", "fail", "skip":
			o.Action = ev.Action
		case "output":
			if !isFraming(ev.Output) {
				o.Output += ev.Output
			}
		}
		outcomes[ev.Test] = o
	}
}

// isFraming tells the lines by which go test marks starts and ends from what
// tests print.
func isFraming(line string) bool {
	return slices.ContainsFunc([]string{"=== RUN", "=== PAUSE", "=== CONT", "=== NAME"}, func(mark string) bool {
		return strings.HasPrefix(line, mark)
	})
}
