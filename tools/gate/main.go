// Command gate runs the checks of this repository that CI runs, several at a
// time, and ends with a table of what each took and found:
//
//	go tool task ci -- [-only NAME,...] [-slice NAME|none] [-list] [-record CLONE]
//
// A part that fails does not keep the others from running, and if it is the only
// one it runs again (again.go). What a part prints is in .task/gate, in a file each. What the parts are is in parts.go; what one
// does is its task's. A new kind of check is a task, and a line there.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// logDir has the parts' logs, below the root of the repository.
const logDir = ".task/gate"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("gate", flag.ContinueOnError)
	only := flags.String("only", "", "run these `parts` only, separated by commas, and what they need")
	slice := flags.String("slice", "auto", "the `slice` of the long tier that runs too: a name, none, or auto, which the tree's hash decides")
	list := flags.Bool("list", false, "print the parts and slices, and run nothing")
	save := flags.String("record", "", "add what the run in this `clone` took to tools/gate/measured.json and to CONTRIBUTING.md, and run nothing")
	name := flags.Bool("turn", false, "print the name of the slice that is this tree's, and run nothing")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q; parts go into -only", flags.Arg(0))
	}
	if *save != "" {
		return saveRecord(*save)
	}
	if *list {
		r, err := lastRecord()
		if err != nil {
			return err
		}
		fmt.Print(listing(parts, tier, r))
		return nil
	}
	if *name {
		p, err := treesTurn(ctx)
		if err == nil {
			fmt.Println(p.name)
		}
		return err
	}
	chosen, err := choose(ctx, *only, *slice)
	if err != nil {
		return err
	}
	if err := preflight(ctx, os.Stdout); err != nil {
		return err
	}
	if err := os.RemoveAll(logDir); err != nil {
		return err
	}
	if err := os.MkdirAll(logDir, 0o755); err != nil { //nolint:gosec // for everybody to read, as the checkout is
		return err
	}
	start := time.Now()
	results := schedule(ctx, chosen, runtime.NumCPU(), runTask, os.Stdout)
	again(ctx, results, time.Since(start), runTask, os.Stdout)
	if *only == "" {
		overspent(results)
	}
	if err := saveMeasured(measure(results, start, *only == "")); err != nil {
		return err
	}
	results = append(results, leftBehind())
	report := summary(results, time.Since(start))
	fmt.Print(report)
	if file := os.Getenv("GITHUB_STEP_SUMMARY"); file != "" {
		if err := os.WriteFile(file, []byte("```\n"+report+"```\n"), 0o600); err != nil {
			return err
		}
	}
	if bad := slices.DeleteFunc(results, func(r result) bool { return r.state == passed || r.state == unsteady }); len(bad) > 0 {
		return fmt.Errorf("%d of %d parts did not pass", len(bad), len(results))
	}
	return nil
}

// choose is what to run: all parts or some with what they need, and a slice of
// the long tier.
func choose(ctx context.Context, only, slice string) ([]part, error) {
	if only != "" {
		return pick(append(slices.Clone(parts), tier...), strings.Split(only, ","))
	}
	switch slice {
	case "none":
		return parts, nil
	case "auto":
		p, err := treesTurn(ctx)
		if err != nil {
			return nil, err
		}
		slice = p.name
	}
	all := slices.Clone(parts)
	for _, p := range tier {
		if p.name == slice {
			return append(all, p), nil
		}
	}
	return nil, fmt.Errorf("there is no slice %q; -list prints them", slice)
}

// treesTurn is the slice of the long tier that belongs to the commit that is
// checked out.
func treesTurn(ctx context.Context) (part, error) {
	tree, err := exec.CommandContext(ctx, "git", "rev-parse", "HEAD^{tree}").Output()
	if err != nil {
		return part{}, fmt.Errorf("the tree's hash chooses the slice of the long tier: git rev-parse: %w; choose one with -slice", err)
	}
	r, err := lastRecord()
	if err != nil {
		return part{}, err
	}
	return turn(strings.TrimSpace(string(tree)), tier, r), nil
}

// runTask runs a part's task to its end, with its output in the log, and returns
// how much of the processors its processes used, as far as their parents waited
// for them: containers of an engine count for nobody.
func runTask(ctx context.Context, p part) (time.Duration, error) {
	log, err := os.OpenFile(logOf(p), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // for everybody to read
	if err != nil {
		return 0, err
	}
	defer log.Close()
	ctx, cancel := context.WithTimeout(ctx, p.limit())
	defer cancel()
	args := append([]string{"tool", "task"}, p.task()...)
	cmd := exec.CommandContext(ctx, "go", args...)
	if p.background {
		cmd = exec.CommandContext(ctx, "nice", append([]string{"-n", "15", "go"}, args...)...)
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), p.env...)
	// A group of its own: what the task has started ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	err = cmd.Run()
	if kill := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); kill == nil {
		fmt.Fprintln(log, "gate: killed what the task left running")
	}
	var used time.Duration
	if s := cmd.ProcessState; s != nil {
		used = s.UserTime() + s.SystemTime()
	}
	if ctxErr := context.Cause(ctx); err != nil && errors.Is(ctxErr, context.DeadlineExceeded) {
		return used, fmt.Errorf("not done within its limit of %s", p.limit())
	}
	return used, err
}

// logOf is the file with a part's output.
func logOf(p part) string {
	return filepath.Join(logDir, strings.ReplaceAll(p.name, ":", "-")+".log")
}
