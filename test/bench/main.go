// Command bench measures Sandkasten on this host, beside the container tools
// that are installed, and writes docs/benchmarks.md. It drives a daemon of its
// own through the public API only, and leaves nothing behind.
//
//	go run ./test/bench [-parts create,exec] [-only sandkasten,crun] [-scale 0.2]
//
// It needs root, bin/sandkasten (go tool task build), and mmdebstrap unless
// -rootfs names a root filesystem. What a number means is written where it is
// measured (suite.go and beside it) and in the report (package report).
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sandkasten/sandkasten/test/bench/machine"
	"github.com/sandkasten/sandkasten/test/bench/report"
)

// options is what the command line asks for.
type options struct {
	parts   []string // empty: all
	only    []string // beginnings of subjects' names; empty: all that are installed
	scale   float64
	rootfs  string
	binary  string
	dockerd bool
	socket  string
	report  string
	json    string
	seed    uint64
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parseOptions(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	list := func(into *[]string) func(string) error {
		return func(arg string) error {
			*into = strings.Split(arg, ",")
			return nil
		}
	}
	flags.Func("parts", "measure only these `parts`: "+partNames(), list(&o.parts))
	flags.Func("only", "measure only `subjects` whose names begin so, as sandkasten,crun", list(&o.only))
	flags.Float64Var(&o.scale, "scale", 1, "multiply the number of rounds by this `factor`")
	flags.StringVar(&o.rootfs, "rootfs", "", "`directory` of the root filesystem that everybody runs (default: a Debian made with mmdebstrap)")
	flags.StringVar(&o.binary, "bin", "bin/sandkasten", "the `program` to measure")
	flags.BoolVar(&o.dockerd, "dockerd", false, "start a docker daemon for the run if none answers")
	flags.StringVar(&o.socket, "docker-socket", "/var/run/docker.sock", "docker's `socket`")
	flags.StringVar(&o.report, "o", "docs/benchmarks.md", "write the report to `file`; it is written only by a whole run: all parts, all subjects, full scale")
	flags.StringVar(&o.json, "json", "", "write the results as JSON to `file`, - for stdout")
	flags.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "`seed` of the order of measurements")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	for _, name := range o.parts {
		if !slices.ContainsFunc(parts, func(p part) bool { return p.name == name }) {
			return o, fmt.Errorf("no part %q; there are %s", name, partNames())
		}
	}
	if o.scale <= 0 {
		return o, errors.New("-scale has to be more than 0")
	}
	return o, nil
}

func partNames() string {
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	return strings.Join(names, ",")
}

func run(ctx context.Context, args []string) (err error) {
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("run it as root: sandboxes, ours and the peers', are made by root")
	}
	progress := func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	}
	field, err := assemble(ctx, o, progress)
	if err != nil {
		return err
	}
	// What was started is stopped even when the run was interrupted.
	defer func() { err = errors.Join(err, field.close(context.WithoutCancel(ctx))) }()

	s := &suite{
		contenders: field.contenders, daemon: field.daemon, another: field.another, scale: o.scale, log: progress,
		rng: rand.New(rand.NewPCG(o.seed, 0)), //nolint:gosec // an order, not a secret
	}
	s.results.Date = time.Now().UTC()
	s.results.Machine = machine.Describe(ctx, field.dir, field.tools)
	for _, p := range parts {
		if len(o.parts) > 0 && !slices.Contains(o.parts, p.name) {
			continue
		}
		progress("measuring %s", p.name)
		if err := p.run(s, ctx); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	if field.daemon != nil {
		if s.results.Leftovers, err = field.daemon.leftovers(); err != nil {
			return err
		}
	}
	return publish(o, s.results)
}

// publish writes what was measured to where the options want it.
func publish(o options, r report.Results) error {
	text := r.Markdown()
	fmt.Print(text)
	if o.report != "" && len(o.parts) == 0 && len(o.only) == 0 && o.scale >= 1 {
		if err := os.WriteFile(o.report, []byte(text), 0o644); err != nil {
			return err
		}
	}
	if o.json == "" {
		return nil
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	data = append(data, '\n')
	if o.json == "-" {
		_, err = os.Stdout.Write(data)
		return err
	}
	return os.WriteFile(o.json, data, 0o644)
}
