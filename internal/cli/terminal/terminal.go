// Package terminal lends the user's terminal to a program in a session: keys go
// in, what the program shows comes out, and a connection that breaks is made
// again.
package terminal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// Needed is the error of a command that has no terminal to lend, else nil.
func Needed(a *cli.App, command string) error {
	if !show.IsTerminal(a.In) || !show.IsTerminal(a.Out) {
		return cli.NotRun(fmt.Errorf("%s needs a terminal; use `sandkasten exec` from programs", command))
	}
	return nil
}

// Kind is what programs call our terminal.
func Kind() string { return cmp.Or(os.Getenv("TERM"), "xterm") }

// ErrDetached is no failure, and exits with 0: the user has left a program that goes on.
const ErrDetached = cli.CodeError(0)

// Run lends our terminal to one of a session, which it closes. It returns the exit
// code of its program as an error, nil for 0, and ErrDetached.
func Run(ctx context.Context, a *cli.App, s *sandkasten.Session, t *sandkasten.Terminal) error {
	before, err := term.MakeRaw(int(a.In.Fd()))
	if err != nil {
		return cli.NotRun(errors.Join(fmt.Errorf("prepare the terminal: %w", err), t.Close()))
	}
	l := &line{a: a, session: s, t: t}
	err = l.converse(ctx)
	if restoreErr := term.Restore(int(a.In.Fd()), before); restoreErr != nil {
		err = errors.Join(err, fmt.Errorf("restore the terminal (`reset` does it by hand): %w", restoreErr))
	}
	switch {
	case errors.Is(err, errDetached):
		a.Say("detached; `sandkasten shell --attach %s %s` attaches again", show.Printable(t.ID()), s.ID)
		return ErrDetached
	case err != nil:
		return cli.NotRun(err)
	}
	if code, _ := l.terminal().ExitCode(); code != 0 {
		return cli.CodeError(code & 0xff)
	}
	return nil
}

// Size is that of the terminal f.
func Size(f *os.File) (rows, cols uint16) {
	width, height, err := term.GetSize(int(f.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return 24, 80
	}
	return uint16(min(height, 1<<15)), uint16(min(width, 1<<15))
}

// line is our terminal at one end and a session's at the other. The connection
// between them may break and be made again.
type line struct {
	a       *cli.App
	session *sandkasten.Session

	mu sync.Mutex
	t  *sandkasten.Terminal // guarded by mu; replaced when the connection breaks
}

func (l *line) terminal() *sandkasten.Terminal {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.t
}

// Write types p. What is typed while the connection is broken is lost, as the
// message about it says.
func (l *line) Write(p []byte) (int, error) {
	if _, err := l.terminal().Write(p); err != nil {
		return len(p), nil //nolint:nilerr // who reads from the connection sees that it broke
	}
	return len(p), nil
}

// converse carries bytes both ways until the program ends or we detach. The
// copy from the keyboard cannot be interrupted in its read, so it is not
// waited for: the process ends next.
func (l *line) converse(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	shown, typed := make(chan error, 1), make(chan error, 1)
	go func() { shown <- l.show(ctx) }()
	go func() { typed <- input(l, l.a.In) }()
	end := func(err error) error {
		cancel()
		if closeErr := l.terminal().Close(); err == nil {
			err = closeErr
		}
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return end(context.Cause(ctx))
		case err := <-typed:
			return end(err)
		case err := <-shown:
			return end(err)
		case <-resized:
			if err := l.terminal().Resize(Size(l.a.Out)); err != nil {
				continue // the connection broke, and the next one has the size
			}
		}
	}
}

// show prints what the terminal shows, over as many connections as it takes.
func (l *line) show(ctx context.Context) error {
	for {
		t := l.terminal()
		_, err := io.Copy(l.a.Out, t)
		if !isConnectionError(err) || ctx.Err() != nil {
			return err // nil if the program has ended
		}
		if err := l.reattach(ctx, t); err != nil {
			return err
		}
	}
}

// isConnectionError reports whether err is of a connection: not the daemon's word, and not
// our own output.
func isConnectionError(err error) bool {
	_, lost := errors.AsType[*sandkasten.ConnectionError](err)
	return lost
}

const (
	reattachFirst = 250 * time.Millisecond
	reattachMost  = 8 * time.Second // between two tries
	reattachTries = 12              // in about a minute
)

// reattach makes a new connection that goes on where the old one broke.
func (l *line) reattach(ctx context.Context, old *sandkasten.Terminal) error {
	l.a.Say("\r\nsandkasten: the connection broke; attaching again. Keys are lost until then. Ctrl-\\ gives up.\r")
	err := old.Close()
	for try, wait := 0, reattachFirst; try < reattachTries; try, wait = try+1, min(2*wait, reattachMost) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
		var t *sandkasten.Terminal
		rows, cols := Size(l.a.Out)
		t, err = l.session.AttachTerminal(ctx, old.ID(), &sandkasten.AttachTerminalOptions{
			Rows: rows, Cols: cols, SinceSeq: cmp.Or(old.Seq(), -1),
		})
		if err == nil {
			l.mu.Lock()
			l.t = t
			l.mu.Unlock()
			l.a.Say("sandkasten: attached again.\r")
			return nil
		}
		if !isConnectionError(err) && !errors.Is(err, sandkasten.ErrUnavailable) {
			return err
		}
	}
	return fmt.Errorf("the terminal cannot be reached again; `sandkasten shell --attach %s %s` tries once more: %w", show.Printable(old.ID()), l.session.ID, err)
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
