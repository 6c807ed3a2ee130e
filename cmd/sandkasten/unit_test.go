package main

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/sdk/go"
)

func TestCommandLineKeepsWordsAsTheyAre(t *testing.T) {
	for _, words := range [][]string{
		{"echo", "a b", "c"},
		{"printf", "%s|", "", "'", `"`, "$HOME", "`x`", "*", "a\nb", "--", "-n", `\`},
		{"echo", "ä", "~", "#x", "!1", "a=b", "{a,b}"},
	} {
		line := commandLine(words)
		// The words as a shell reads them back.
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "f() { printf '%s\\0' \"$@\"; }; f "+line).Output()
		if err != nil {
			t.Fatalf("sh cannot read %q: %v", line, err)
		}
		if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); !cmp.Equal(got, words) {
			t.Errorf("%q arrives as %q", words, got)
		}
	}
	for _, test := range []struct {
		words []string
		want  string
	}{
		{[]string{"echo $HOME | wc -c"}, "echo $HOME | wc -c"},
		{[]string{"--", "echo $HOME"}, "echo $HOME"},
		{[]string{"--", "ls", "--", "-x"}, "ls -- -x"},
	} {
		if got := commandLine(test.words); got != test.want {
			t.Errorf("commandLine(%q) = %q, want %q", test.words, got, test.want)
		}
	}
}

func TestHowACommandEnds(t *testing.T) {
	for _, test := range []struct {
		result sandkasten.ExecEnd
		want   error
	}{
		{sandkasten.ExecEnd{Cause: "exited"}, nil},
		{sandkasten.ExecEnd{Cause: "exited", ExitCode: 3}, cli.CodeError(3)},
		{sandkasten.ExecEnd{Cause: "signaled", ExitCode: 137}, cli.CodeError(137)},
		{sandkasten.ExecEnd{Cause: "timeout", ExitCode: 143}, cli.CodeError(124)},
		{sandkasten.ExecEnd{Cause: "sandbox_gone", ExitCode: 137}, cli.CodeError(125)},
	} {
		if got := exitWith(test.result); got != test.want {
			t.Errorf("ended(%+v) = %v, want %v", test.result, got, test.want)
		}
	}
}

func TestFirstSignalEndsTheContextWithItsCause(t *testing.T) {
	ctx, stop := untilSignal()
	defer stop()
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if cause := context.Cause(ctx); cause != cli.SignalError(syscall.SIGTERM) {
		t.Errorf("cause = %v", cause)
	}
}

// Text that begins with an example loses its indentation, and is run together
// with the line behind it.
func TestHelpBeginsWithASentence(t *testing.T) {
	parser, err := kong.New(&commands{})
	if err != nil {
		t.Fatal(err)
	}
	err = kong.Visit(parser.Model, func(node kong.Visitable, next kong.Next) error {
		if app, ok := node.(*kong.Application); ok {
			node = app.Node
		}
		if command, ok := node.(*kong.Node); ok && strings.HasPrefix(command.Detail, " ") {
			t.Errorf("the help of %q begins with an example", command.FullPath())
		}
		return next(nil)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestProcessRowNamesALoginShell(t *testing.T) {
	row := processRow(sandkasten.ExecRecord{Kind: "process", TTY: true, State: "running"}, time.Now())
	if got := row[len(row)-1]; got != "(login shell)" {
		t.Errorf("the command of a terminal without one is %q", got)
	}
}

// A unit that systemd gives up on leaves nobody who can remove what keeps the
// daemon from starting.
func TestUnitIsTriedForEver(t *testing.T) {
	text, err := os.ReadFile("../../deploy/sandkasten.service")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"StartLimitIntervalSec=0", "Restart=on-failure"} {
		if !strings.Contains("\n"+string(text), "\n"+line+"\n") {
			t.Errorf("the unit has no %s", line)
		}
	}
}

// A stop waits for requests, ends all parts, and is not killed meanwhile.
func TestUnitGivesAStopItsTime(t *testing.T) {
	text, err := os.ReadFile("../../deploy/sandkasten.service")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "\nTimeoutStopSec=")
	line, _, _ := strings.Cut(after, "\n")
	patience, err := time.ParseDuration(line + "s")
	if least := config.Default([]string{"native"}).ShutdownGrace + 50*time.Second; err != nil || patience < least {
		t.Errorf("the unit gives a stop %v, %v; the least is %v", patience, err, least)
	}
}
