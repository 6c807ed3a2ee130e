package runner

import (
	osexec "os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/runner/dialect"
	"github.com/sandkasten/sandkasten/protocol"
)

// traceDepth is how shells show in a trace how deep a command is, each in its own way.
var traceDepth = regexp.MustCompile(`(?m)^\++ `)

// What a shell itself writes when a command ends it is that command's output, behind
// what the command wrote, and there is nothing of ours in it.
func TestWhatAShellWritesAtItsEndIsTheCommands(t *testing.T) {
	shells := map[string]dialect.Dialect{"bash": dialect.Find()}
	for _, name := range []string{"dash", "busybox"} {
		if path, err := osexec.LookPath(name); err == nil {
			shells[name] = dialect.Posix(path)
		}
	}
	for name, d := range shells {
		t.Run(name, func(t *testing.T) {
			s := startTestShell(t, d, t.TempDir())
			for _, tc := range []struct {
				before, command, output string
				code                    int
			}{
				{"", "trap 'echo cleaning up' EXIT; echo work; exit 7", "work\ncleaning up\n", 7},
				{"", "trap 'echo cleaning up >&2' EXIT; echo work; set -e; false; echo not", "work\ncleaning up\n", 1},
				{"trap 'echo cleaning up' EXIT", "exit 3", "cleaning up\n", 3},
				{"", "f() { trap 'echo cleaning up' EXIT; echo work; exit 4; }; f", "work\ncleaning up\n", 4},
				{"", "trap 'sleep 0.1; (echo of a child); sleep 0.1; echo late' EXIT; exit 5", "of a child\nlate\n", 5},
				{"sleep 100 & kill $!; wait; true", "exit 6", "", 6},
				{"trap 'echo \"cleaning up\"' EXIT; set -x", "exit 7 # it's traced", "+ exit 7\n+ echo 'cleaning up'\ncleaning up\n", 7},
				{"", "set -ex; (exit 8)", "+ exit 8\n", 8},
				{"", "exit 9", "", 9},
			} {
				if tc.before != "" {
					s.exec(t, tc.before)
				}
				rec, out := s.exec(t, tc.command)
				out = strings.ReplaceAll(traceDepth.ReplaceAllString(out, "+ "), "+ echo cleaning up\n", "+ echo 'cleaning up'\n")
				if out != tc.output || rec.ExitCode != tc.code || rec.Cause != protocol.CauseShellExited {
					t.Errorf("%q, %q: %q, %d %s; want %q, %d", tc.before, tc.command, out, rec.ExitCode, rec.Cause, tc.output, tc.code)
				}
				if _, out := s.exec(t, "echo on"); out != "on\n" {
					t.Errorf("%q, %q: the next command wrote %q", tc.before, tc.command, out)
				}
			}
		})
	}
}

// A trap may write more than a pipe takes.
func TestAnEndOfManyWords(t *testing.T) {
	s := startTestShell(t, dialect.Find(), t.TempDir())
	rec, _ := s.exec(t, "trap 'head -c 1000000 /dev/zero' EXIT; echo work; exit 7")
	if rec.OutputBytes != 1_000_005 || rec.ExitCode != 7 || rec.Cause != protocol.CauseShellExited {
		t.Errorf("%+v", rec)
	}
}
