package main

import (
	"errors"
	"io"
	"os"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
)

// rawFlag is of what passes a program's output on.
type rawFlag struct {
	Raw bool `help:"Send the output unchanged to a terminal too. By default a terminal shows control characters, such as \\x1b; files and pipes always get the output unchanged."`
}

// outputs are where the output of a program goes.
type outputs struct {
	out, err io.Writer

	allow string // the command that allows what the network refused, up to the entry; empty is that of the session
}

// outputs are ours. What a program in a sandbox writes is not to retitle windows,
// fill the clipboard or have the terminal answer, unless that is wanted.
func (f rawFlag) outputs(a *cli.App) outputs {
	o := outputs{out: a.Out, err: a.Err}
	if f.Raw {
		return o
	}
	if show.IsTerminal(a.Out) {
		o.out = show.NewScreen(o.out)
	}
	if file, ok := a.Err.(*os.File); ok && show.IsTerminal(file) {
		o.err = show.NewScreen(o.err)
	}
	return o
}

// flush writes what is held back of either.
func (o outputs) flush() error {
	var errs []error
	for _, w := range []io.Writer{o.out, o.err} {
		if s, ok := w.(*show.Screen); ok {
			errs = append(errs, s.Flush())
		}
	}
	return errors.Join(errs...)
}
