package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"github.com/sandkasten/sandkasten/internal/client"
)

type shellCmd struct {
	Session string `arg:"" help:"Session id."`
}

func (shellCmd) Help() string {
	return `A login shell of its own on a terminal: it shares the session's files and
processes, not the directory and variables of its exec shell. Ctrl-C and resizes
go inside. Ctrl-\, or ~. at the beginning of a line, detaches; the session goes
on. ~~ types one ~.

  sandkasten shell $(sandkasten create)`
}

func (c shellCmd) Run(ctx context.Context, a *app) (err error) {
	if !isTerminal(a.in) || !isTerminal(a.out) {
		return notRunError{errors.New("shell needs a terminal; use `sandkasten exec` from programs")}
	}
	cl, err := a.client()
	if err != nil {
		return notRunError{err}
	}
	defer cl.Close()
	kind := os.Getenv("TERM")
	if kind == "" {
		kind = "xterm"
	}
	t, err := cl.Terminal(ctx, c.Session, kind, terminalSize(a.out))
	if err != nil {
		return notRunError{err}
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	before, err := term.MakeRaw(int(a.in.Fd()))
	if err != nil {
		return notRunError{fmt.Errorf("prepare the terminal: %w", err)}
	}
	err = converse(ctx, a, t)
	if restoreErr := term.Restore(int(a.in.Fd()), before); restoreErr != nil {
		err = errors.Join(err, fmt.Errorf("restore the terminal (`reset` does it by hand): %w", restoreErr))
	}
	switch {
	case errors.Is(err, errDetached):
		a.say("detached; `sandkasten shell %s` opens another terminal", c.Session)
		return nil
	case err == nil:
		return nil
	}
	if exit, ok := errors.AsType[*client.ExitError](err); ok {
		if exit.Code == 0 {
			return nil
		}
		return codeError(exit.Code & 0xff)
	}
	return notRunError{err}
}

func terminalSize(f *os.File) client.Size {
	cols, rows, err := term.GetSize(int(f.Fd()))
	if err != nil || cols <= 0 || rows <= 0 {
		return client.Size{Rows: 24, Cols: 80}
	}
	return client.Size{Rows: uint16(min(rows, 1<<15)), Cols: uint16(min(cols, 1<<15))}
}

// converse carries bytes both ways and returns when either side ends. The
// copy from the keyboard cannot be interrupted in its read, so it is not
// waited for: the process ends next.
func converse(ctx context.Context, a *app, t *client.Terminal) error {
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	ended := make(chan error, 2)
	go func() { ended <- output(a.out, t) }()
	go func() { ended <- input(t, a.in) }()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-ended:
			return err
		case <-resized:
			if err := t.Resize(terminalSize(a.out)); err != nil {
				return err
			}
		}
	}
}

func output(w io.Writer, t io.Reader) error {
	_, err := io.Copy(w, t)
	return err
}

var errDetached = errors.New("detached")

// input types what comes from the keyboard until it asks to detach.
func input(t io.Writer, keyboard io.Reader) error {
	keys := keyFilter{lineStart: true}
	buf := make([]byte, 4096)
	for {
		n, err := keyboard.Read(buf)
		typed, detach := keys.filter(buf[:n])
		if len(typed) > 0 {
			if _, err := t.Write(typed); err != nil {
				return err
			}
		}
		if detach || errors.Is(err, io.EOF) {
			return errDetached
		}
		if err != nil {
			return fmt.Errorf("read the keyboard: %w", err)
		}
	}
}

// keyFilter finds the two ways to detach in what is typed: Ctrl-\ anywhere
// and ~. at the beginning of a line.
type keyFilter struct {
	lineStart bool
	tilde     bool // one was typed at the beginning of a line and is held back
}

func (k *keyFilter) filter(typed []byte) (pass []byte, detach bool) {
	const ctrlBackslash = 0x1c
	for _, b := range typed {
		held := k.tilde
		k.tilde = false
		switch {
		case b == ctrlBackslash, held && b == '.':
			return pass, true
		case held && b == '~':
			pass = append(pass, '~')
			k.lineStart = false
			continue
		case held:
			pass = append(pass, '~')
		case k.lineStart && b == '~':
			k.tilde = true
			continue
		}
		pass = append(pass, b)
		k.lineStart = b == '\r' || b == '\n'
	}
	return pass, false
}
