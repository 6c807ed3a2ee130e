// Command newcomer does what somebody does who begins with an SDK, and tells how
// long it took: installs the package as it is published, in a place where nothing
// of it is, and runs the first program of its README as it is written. It fails if
// that prints anything but what the README says. It needs a daemon:
//
//	go run ./sdk/contract/run go run ./sdk/contract/newcomer
//
// What it does not do is build the packages otherwise than their own tools do, or
// look into them: that is the tests' of each SDK. Nothing is taken from a cache of
// Go's or pip's, so the first program in Go compiles the standard library too.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"time"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

// patience bounds one command, downloads included.
const patience = 5 * time.Minute

// sdk is how one is packed, installed and used, by commands of the shell. $SDK is
// its source, $PYTHON an interpreter with what packs Python's.
type sdk struct {
	name    string
	fence   string // the language of its programs in the README
	pack    string // makes $ARTEFACT, a directory that has nothing else in it
	install string // what is timed: run in an empty directory
	file    string // of the program
	start   string // runs it
}

var sdks = []sdk{
	{
		name: "typescript", fence: "js", file: "main.mjs", start: "exec node main.mjs",
		pack:    `cd "$SDK" && npm pack --silent --ignore-scripts --pack-destination "$ARTEFACT"`,
		install: `npm init --yes --silent >/dev/null && npm install --silent --no-audit --no-fund "$ARTEFACT"/*.tgz`,
	},
	{
		name: "python", fence: "python", file: "main.py", start: "exec venv/bin/python main.py",
		pack:    `"$PYTHON" -m build --wheel --no-isolation --outdir "$ARTEFACT" "$SDK"`,
		install: `python3 -m venv venv && venv/bin/pip install --no-cache-dir --quiet --disable-pip-version-check "$ARTEFACT"/*.whl`,
	},
	{
		// A module is its source; until it is published a replacement stands for the download.
		name: "go", fence: "go", file: "main.go", start: `export GOCACHE="$PWD/../cache"; exec go run .`,
		install: `go mod init example.org/program 2>/dev/null &&
			go mod edit -require=github.com/sandkasten/sandkasten/sdk/go@v0.0.0 -replace=github.com/sandkasten/sandkasten/sdk/go="$SDK"`,
	},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "newcomer:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	root, err := testenv.ModuleRoot()
	if err != nil {
		return err
	}
	python := flag.String("python", filepath.Join(root, ".task", "python", "bin", "python"), "a Python `program` with the module build")
	flag.Parse()
	fmt.Println("| SDK | install | start to first result | whole program |")
	fmt.Println("| --- | --- | --- | --- |")
	for _, s := range sdks {
		source := filepath.Join(root, "sdk", s.name)
		env := append(os.Environ(), "SDK="+source, "PYTHON="+*python, "GOFLAGS=", "GOWORK=off")
		took, err := s.begin(ctx, source, env)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Printf("| %s | %.1f s | %.2f s | %.2f s |\n", s.name, took.install.Seconds(), took.first.Seconds(), took.whole.Seconds())
	}
	return nil
}

// times are how long it took.
type times struct {
	install time.Duration
	first   time.Duration // from the start of the program to the first byte that it prints
	whole   time.Duration // to its end
}

// begin does it once, and removes what it made.
func (s sdk) begin(ctx context.Context, source string, env []string) (took times, err error) {
	dir, err := os.MkdirTemp("", "sandkasten-newcomer-")
	if err != nil {
		return took, err
	}
	defer func() {
		if removed := os.RemoveAll(dir); err == nil {
			err = removed
		}
	}()
	artefact, work := filepath.Join(dir, "artefact"), filepath.Join(dir, "work")
	for _, made := range []string{artefact, work} {
		if err := os.Mkdir(made, 0o755); err != nil {
			return took, err
		}
	}
	env = append(env, "ARTEFACT="+artefact)
	program, want, err := s.readme(source)
	if err != nil {
		return took, err
	}
	if _, err := shell(ctx, dir, env, s.pack); err != nil {
		return took, err
	}
	if took.install, err = shell(ctx, work, env, s.install); err != nil {
		return took, err
	}
	if err := os.WriteFile(filepath.Join(work, s.file), []byte(program), 0o600); err != nil {
		return took, err
	}
	out := &printed{began: time.Now()}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", s.start)
	var said bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = work, env, out, &said
	if err := cmd.Run(); err != nil {
		return took, fmt.Errorf("the README's program: %w\n%s%s", err, &out.text, &said)
	}
	took.first, took.whole = out.first, time.Since(out.began)
	if got := out.text.String(); got != want {
		return took, fmt.Errorf("the README's program prints %q, not %q", got, want)
	}
	return took, nil
}

// readme finds the first program of a README and what it prints.
func (s sdk) readme(source string) (program, printed string, err error) {
	text, err := os.ReadFile(filepath.Join(source, "README.md"))
	if err != nil {
		return "", "", err
	}
	found := regexp.MustCompile("(?s)```" + s.fence + "\n(.*?)```(?:\\s*prints)?\\s*```text\n(.*?)```").FindSubmatch(text)
	if found == nil {
		return "", "", fmt.Errorf("its README has no program in %s with what that prints", s.fence)
	}
	return string(found[1]), string(found[2]), nil
}

// printed keeps what a program prints, and when it began to.
type printed struct {
	text  bytes.Buffer
	began time.Time
	first time.Duration // 0 until something was printed
}

// Write keeps p.
func (w *printed) Write(p []byte) (int, error) {
	if w.first == 0 {
		w.first = time.Since(w.began)
	}
	return w.text.Write(p)
}

// shell runs commands and tells how long they took.
func shell(ctx context.Context, dir string, env []string, commands string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", commands)
	cmd.Dir, cmd.Env = dir, env
	began := time.Now()
	if text, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%s: %w\n%s", commands, err, text)
	}
	return time.Since(began), nil
}
