// Package wsl keeps a daemon in a distribution of the Windows Subsystem for
// Linux, through wsl.exe and from outside: it makes sure of the distribution,
// puts the program into it, starts and stops it. It knows wsl.exe's manners and
// nothing of the daemon but its program, its address and its /readyz.
package wsl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
)

// Where things are in the distribution.
const (
	program = "/usr/local/bin/sandkasten"
	pidFile = "/run/sandkasten-wsl.pid"
	logFile = "/var/log/sandkasten-wsl.log"
)

// Host is a distribution and the way to it.
type Host struct {
	Exe          string    // wsl.exe, as a path or a name to look up
	Distribution string    // as `wsl.exe --list` names it
	URL          string    // where the daemon is reached from Windows, as http://127.0.0.1:8787
	Out          io.Writer // for people: progress, and what programs in the distribution print
}

// Distribution is a line of `wsl.exe --list --verbose`.
type Distribution struct {
	Name    string
	State   string // in the language of Windows
	Version string // of WSL: 1 or 2
}

// Distributions are those that are installed. Where there are none wsl.exe
// fails, and so does this, with what wsl.exe says about it.
func (h Host) Distributions(ctx context.Context) ([]Distribution, error) {
	text, err := h.ask(ctx, "--list", "--verbose")
	if err != nil {
		return nil, err
	}
	return parseList(text), nil
}

// Ensure installs the distribution unless it is there, which takes minutes and
// may need a restart of Windows. It refuses one of WSL 1, which has no Linux
// kernel.
func (h Host) Ensure(ctx context.Context) error {
	found, err := h.find(ctx)
	if found == nil {
		if err := h.say("Installing the distribution %s.\n", h.Distribution); err != nil {
			return err
		}
		if _, err := h.ask(ctx, "--install", h.Distribution, "--no-launch"); err != nil {
			return fmt.Errorf("install the distribution %s: %w", h.Distribution, err)
		}
		found, err = h.find(ctx)
	}
	switch {
	case err != nil:
		return err
	case found == nil:
		return fmt.Errorf("%s is installed and not set up: run \"wsl --install %s\" once, restart Windows if it says so, and try again", h.Distribution, h.Distribution)
	case found.Version == "1":
		return fmt.Errorf("%s is of WSL 1, which has no Linux kernel: run \"wsl --set-version %s 2\" and try again", h.Distribution, h.Distribution)
	}
	return nil
}

// find returns nil if the distribution is not installed.
func (h Host) find(ctx context.Context) (*Distribution, error) {
	all, err := h.Distributions(ctx)
	i := slices.IndexFunc(all, func(d Distribution) bool { return strings.EqualFold(d.Name, h.Distribution) })
	if i < 0 {
		return nil, err
	}
	return &all[i], nil
}

// Install puts the daemon's program, built for Linux, into the distribution, in
// one step, and prints what its doctor finds. What the doctor finds is no error.
func (h Host) Install(ctx context.Context, binary io.Reader) error {
	const fresh = program + ".new"
	// dd and not a shell: a script and the program cannot share standard input.
	if err := h.run(ctx, binary, io.Discard, "dd", "of="+fresh, "bs=1M", "status=none"); err != nil {
		return fmt.Errorf("copy the program: %w", err)
	}
	if err := h.script(ctx, "chmod 755 "+fresh+" && mv "+fresh+" "+program+"\n"); err != nil {
		return fmt.Errorf("install the program: %w", err)
	}
	return h.script(ctx, program+" doctor || true\n")
}

// Logs prints the last lines of the daemon's log and, if follow is set, goes on
// until ctx is done.
func (h Host) Logs(ctx context.Context, lines int, follow bool) error {
	args := []string{"tail", "-n", fmt.Sprint(lines)}
	if follow {
		args = append(args, "-F")
	}
	err := h.run(ctx, nil, h.Out, append(args, logFile)...)
	if ctx.Err() != nil {
		return nil // nobody wants more
	}
	return err
}

// script runs a shell script as root in the distribution. It goes through
// standard input: what wsl.exe makes of quotes and dollar signs in arguments
// differs from version to version.
func (h Host) script(ctx context.Context, text string) error {
	return h.run(ctx, strings.NewReader(text), h.Out, "sh", "-s")
}

// run runs a program as root in the distribution.
func (h Host) run(ctx context.Context, stdin io.Reader, out io.Writer, args ...string) error {
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, h.Exe, h.inside(args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, out, &said
	return explain(cmd.Run(), said.Bytes())
}

// inside are the arguments for a program in the distribution.
func (h Host) inside(args ...string) []string {
	return append([]string{"--distribution", h.Distribution, "--user", "root", "--exec"}, args...)
}

// ask runs wsl.exe itself and returns what it says.
func (h Host) ask(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, h.Exe, args...).CombinedOutput()
	return decode(out), explain(err, out)
}

func (h Host) say(format string, args ...any) error {
	_, err := fmt.Fprintf(h.Out, format, args...)
	return err
}

// explain adds to the error of a wsl.exe what it said.
func explain(err error, said []byte) error {
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%w: WSL is a feature of Windows 10 (2004) and later; see \"wsl --install\"", err)
	}
	if text := strings.TrimSpace(decode(said)); err != nil && text != "" {
		return fmt.Errorf("%s (%w)", text, err)
	}
	return err
}
