package users

import (
	"errors"
	"io"
	"strings"

	"golang.org/x/term"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
)

// maxPassword is more bytes than a password may have.
const maxPassword = 4096

// readPassword asks for a user's password, twice, or takes what standard input has if
// that is no terminal. It is no argument: other users can see those.
func readPassword(a *cli.App, name string) (string, error) {
	if !show.IsTerminal(a.In) {
		text, err := io.ReadAll(io.LimitReader(a.In, maxPassword+1))
		if err != nil {
			return "", err
		}
		return given(strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"))
	}
	first, err := askPassword(a, "Password of "+show.Printable(name)+": ")
	if err != nil {
		return "", err
	}
	again, err := askPassword(a, "Again: ")
	if err != nil {
		return "", err
	}
	if first != again {
		return "", cli.Wrong("the two passwords differ; nothing was changed")
	}
	return given(first)
}

// readCurrentPassword asks for the password that a user has now, or takes the first line
// of standard input if that is no terminal, and leaves the rest.
func readCurrentPassword(a *cli.App, name string) (string, error) {
	if show.IsTerminal(a.In) {
		return askPassword(a, "Current password of "+show.Printable(name)+": ")
	}
	var line []byte
	for one := make([]byte, 1); len(line) <= maxPassword; line = append(line, one[0]) {
		if n, err := a.In.Read(one); n == 0 && err != nil || one[0] == '\n' {
			break // without a line there is no password, which the daemon says
		}
	}
	return strings.TrimSuffix(string(line), "\r"), nil
}

func given(password string) (string, error) {
	switch {
	case password == "":
		return "", cli.Wrong("no password was given; --no-password takes one away")
	case len(password) > maxPassword:
		return "", cli.Wrong("the password has more than %d bytes", maxPassword)
	}
	return password, nil
}

// askPassword reads a line that is not shown. The terminal is raw meanwhile, so that an
// interrupt ends the reading instead of leaving it to wait without an echo.
func askPassword(a *cli.App, prompt string) (line string, err error) {
	state, err := term.MakeRaw(int(a.In.Fd()))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, term.Restore(int(a.In.Fd()), state)) }()
	screen := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{a.In, a.Err}, "")
	line, err = screen.ReadPassword(prompt)
	if errors.Is(err, io.EOF) {
		return "", errors.New("no password was given")
	}
	return line, err
}
