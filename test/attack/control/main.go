// Command control is the negative control of the attacks in docs/attacks.md: it
// builds the program and the native driver's tests with the tag weaken, takes the
// protections of a table away, a row at a time, and runs the cases that have to
// notice, and those that hold by another protection. A case that passes where it has
// to notice is not a test. What it found is kept in matrix.json, from which the
// matrix in docs/security.md is written. The attacks are the tests', and what a
// protection consists of is the product's.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"time"

	"github.com/sandkasten/sandkasten/test/attack/coverage"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := control(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "control:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to stop
	}
}

func control(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("control", flag.ContinueOnError)
	quick := flags.Bool("quick", false, "only the rows for every change")
	write := flags.Bool("write", false, "keep what is found, and write the matrix into docs/security.md")
	verbose := flags.Bool("v", false, "show why the cases are red")
	var part share
	flags.Func("part", "only one `part` of the rows, such as 1/3", part.parse)
	if err := flags.Parse(args); err != nil {
		return err
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("needs root")
	}
	dir, err := os.MkdirTemp("", "control")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // programs
		return err
	}
	p, err := build(ctx, root, dir)
	if err != nil {
		return err
	}
	found, failed, err := p.all(ctx, selected(flags.Args(), *quick, part), *verbose)
	if err != nil {
		return err
	}
	if *write {
		err = keep(filepath.Join(root, "test/attack/control/matrix.json"), filepath.Join(root, "docs/security.md"), found)
	}
	if failed > 0 {
		err = errors.Join(err, fmt.Errorf("%d cases do not notice what they are for, or do not hold", failed))
	}
	return err
}

// all runs the rows. It returns which of their cases were red, and how many
// were not.
func (p programs) all(ctx context.Context, rows []row, verbose bool) (found map[string][]string, failed int, err error) {
	found = map[string][]string{}
	levels, err := levelsOfCases()
	if err != nil {
		return found, failed, err
	}
	for _, r := range rows {
		if ctx.Err() != nil {
			fmt.Println("interrupted before", r.name())
			break
		}
		o, err := p.runRow(ctx, r, levels)
		if err != nil {
			return found, failed, err
		}
		unnoticed, broken := o.wrong(r)
		fmt.Printf("%-32s red %v, green %v", r.name(), o.red, o.green)
		if len(unnoticed) > 0 {
			fmt.Printf(", NOT NOTICED by %v", unnoticed)
		}
		if len(broken) > 0 {
			fmt.Printf(", DOES NOT HOLD: %v", broken)
		}
		if len(o.absent) > 0 {
			fmt.Printf(", without a test %v", o.absent)
		}
		fmt.Printf(" (%s)\n", o.took.Round(time.Second/10))
		if verbose {
			for _, line := range o.why() {
				fmt.Println("    ", line)
			}
		}
		if len(o.red) == 0 && len(o.green) == 0 {
			fmt.Println(o.log[max(0, len(o.log)-3000):])
		}
		found[r.name()] = slices.DeleteFunc(r.ids(), func(id string) bool { return !slices.Contains(o.red, id) })
		failed += len(unnoticed) + len(broken)
	}
	return found, failed, nil
}

// levelsOfCases is at which level each case of the list is.
func levelsOfCases() (map[string]coverage.Level, error) {
	cases, err := coverage.Cases()
	levels := map[string]coverage.Level{}
	for _, c := range cases {
		levels[c.ID] = c.Level
	}
	return levels, err
}
