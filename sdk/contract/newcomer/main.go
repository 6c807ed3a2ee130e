// Command newcomer does what somebody does who begins with an SDK, and tells how
// long it took: follows the README's instructions for an empty directory, with a copy
// of the repository in which nothing is built, and runs the README's first program.
// It fails if that prints anything but what the README says. It needs a daemon:
//
//	go run ./sdk/contract/run go run ./sdk/contract/newcomer
//
// What it does not do is build the packages otherwise than their own tools do, or
// look into them: that is the tests' of each SDK. Nothing is taken from a cache of
// Go's or pip's, so the first program in Go compiles the standard library too. With
// -warm the caches of the host are used: the instructions and programs are checked in
// the same way, and the times are others.
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
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

// patience bounds one command, downloads included.
const patience = 5 * time.Minute

// sdk is how the first program of one is run, by a command of the shell.
type sdk struct {
	name  string
	fence string // the language of its programs in the README
	file  string // of the program
	start string // runs it
	cold  string // a shell's command before start that hides a cache
}

var sdks = []sdk{
	{name: "typescript", fence: "js", file: "main.mjs", start: "exec node main.mjs"},
	{name: "python", fence: "python", file: "main.py", start: "exec venv/bin/python3 main.py"},
	{name: "go", fence: "go", file: "main.go", start: "exec go run .", cold: `export GOCACHE="$PWD/../cache"; `},
}

// copied makes $COPY, the repository as a user has it: without what was built.
const copied = `mkdir "$COPY" && tar -C "$ROOT" -c --exclude=node_modules --exclude=dist --exclude=__pycache__ LICENSE "sdk/$SDK" |
	tar -C "$COPY" -x`

// copyDir is where the READMEs have the repository.
var copyDir = strings.NewReplacer("~/sandkasten", `"$COPY"`, `"$HOME/sandkasten`, `"$COPY`)

func main() {
	warm := flag.Bool("warm", false, "use the caches of Go and pip")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *warm)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "newcomer:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, warm bool) error {
	root, err := testenv.ModuleRoot()
	if err != nil {
		return err
	}
	fmt.Println("| SDK | install | start to first result | whole program |")
	fmt.Println("| --- | --- | --- | --- |")
	for _, s := range sdks {
		env := append(os.Environ(), "ROOT="+root, "SDK="+s.name, "GOFLAGS=", "GOWORK=off")
		if !warm {
			env = append(env, "PIP_NO_CACHE_DIR=1")
			s.start = s.cold + s.start
		}
		took, err := s.begin(ctx, filepath.Join(root, "sdk", s.name), env)
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
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o755); err != nil {
		return took, err
	}
	env = append(env, "COPY="+filepath.Join(dir, "copy"))
	install, program, want, err := s.readme(source)
	if err != nil {
		return took, err
	}
	if _, err := shell(ctx, dir, env, copied); err != nil {
		return took, err
	}
	if took.install, err = shell(ctx, work, env, "set -e\n"+copyDir.Replace(install)); err != nil {
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

// readme finds how a README installs the SDK, its first program, and what that prints.
func (s sdk) readme(source string) (install, program, printed string, err error) {
	text, err := os.ReadFile(filepath.Join(source, "README.md"))
	if err != nil {
		return "", "", "", err
	}
	first := "(?s)```sh\n(.*?)```.*?```" + s.fence + "\n(.*?)```(?:\\s*prints)?\\s*```text\n(.*?)```"
	found := regexp.MustCompile(first).FindSubmatch(text)
	if found == nil {
		return "", "", "", fmt.Errorf("its README has no program in %s with what that prints", s.fence)
	}
	return string(found[1]), string(found[2]), string(found[3]), nil
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
