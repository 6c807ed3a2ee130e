package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/sdk/go"
)

func TestSecretCommands(t *testing.T) {
	tm := startDaemon(t)
	const value = "Bearer of-great-worth"
	if r := tm.run("secret", "ls"); r.code != 0 || r.out != "" || !strings.Contains(r.errOut, "secret set") {
		t.Errorf("ls of none = %+v", r)
	}
	r := tm.runCtx(t.Context(), value+"\n", "secret", "set", "github", "--host", "api.github.com", "--host", "*.example.org", "--header", "Authorization")
	if r.code != 0 || r.out != "github\n" {
		t.Fatalf("set = %+v", r)
	}
	file := filepath.Join(t.TempDir(), "value")
	if err := os.WriteFile(file, []byte(value), 0o600); err != nil {
		t.Fatal(err)
	}
	var s sandkasten.Secret
	out := tm.want("secret", "set", "maps", "--host", "maps.example.org", "--query", "key", "--file", file, "--shared", "--json")
	if err := json.Unmarshal([]byte(out), &s); err != nil || s.Name != "maps" || s.Query != "key" || !s.Shared {
		t.Errorf("set --json = %s, %v", out, err)
	}
	all := out + tm.want("secret", "ls") + tm.want("secret", "ls", "--json") + tm.want("secret", "ls", "--format", "{{json .}}")
	if strings.Contains(all, "worth") {
		t.Errorf("a value is shown: %s", all)
	}
	for _, want := range []string{"PLACE", "header Authorization", "api.github.com,*.example.org", "query key", "yes"} {
		if !strings.Contains(all, want) {
			t.Errorf("ls lacks %q: %s", want, all)
		}
	}
	if out := tm.want("secret", "ls", "-q"); out != "github\nmaps\n" {
		t.Errorf("ls -q = %q", out)
	}
	if out := tm.want("__complete", "--", "secret", "rm", "gi"); out != "github\n" {
		t.Errorf("completed to %q", out)
	}
	if out := tm.want("secret", "rm", "github", "maps"); out != "github\nmaps\n" {
		t.Errorf("rm = %q", out)
	}
	if r := tm.run("secret", "rm", "maps"); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "`sandkasten secret ls` lists") {
		t.Errorf("rm of what is gone = %+v", r)
	}
}

func TestSecretCommandMistakes(t *testing.T) {
	tm := startDaemon(t)
	set := func(input string, args ...string) result {
		return tm.runCtx(t.Context(), input, append([]string{"secret", "set", "x"}, args...)...)
	}
	tests := []struct {
		name string
		got  result
		code int
		want string
	}{
		{"no host", set("a-value-of-worth", "--header", "A"), cli.ExitUsage, "--host"},
		{"no place", set("a-value-of-worth", "--host", "a.example"), cli.ExitUsage, "--header"},
		{"two places", set("a-value-of-worth", "--host", "a.example", "--header", "A", "--query", "b"), cli.ExitUsage, "--query"},
		{"the value as an argument", set("", "--host", "a.example", "--header", "A", "a-value-of-worth"), cli.ExitUsage, "unexpected argument"},
		{"a host with a port", set("a-value-of-worth", "--host", "a.example:1", "--header", "A"), cli.ExitUsage, "--host must be names without ports"},
		{"no value", set("", "--host", "a.example", "--header", "A"), cli.ExitUsage, "value"},
		{"a long value", set(strings.Repeat("x", 70_000), "--host", "a.example", "--header", "A"), cli.ExitUsage, "more than 65536 bytes"},
	}
	for _, tt := range tests {
		if tt.got.code != tt.code || !strings.Contains(tt.got.errOut, tt.want) || tt.got.out != "" {
			t.Errorf("%s: %+v, want code %d and %q", tt.name, tt.got, tt.code, tt.want)
		}
	}
	if out := tm.want("secret", "ls", "-q"); out != "" {
		t.Errorf("a mistake stored %q", out)
	}
}

// On a terminal the value is asked for, and not shown.
func TestSecretIsAskedFor(t *testing.T) {
	tm := startDaemon(t)
	for _, tt := range []struct {
		typed, want string
		code        int
	}{
		{"a-value-of-worth\r", "x\n", 0},
		{"a-value\x03", "", cli.ExitFailed}, // interrupted
	} {
		master, slave := openTerminal(t)
		typed := make(chan error, 1)
		go func() { typed <- typeUnseen(t.Context(), master, slave, tt.typed) }()
		r := tm.runFrom(context.WithoutCancel(t.Context()), slave, "secret", "set", "x", "--host", "a.example", "--header", "A")
		if err := <-typed; err != nil {
			t.Fatal(err)
		}
		if r.code != tt.code || r.out != tt.want || !strings.Contains(r.errOut, "Value of x: ") || strings.Contains(r.errOut, "a-value") {
			t.Errorf("typed %q: %+v", tt.typed, r)
		}
	}
}

// typeUnseen types a text once the terminal shows nothing of it, as somebody does who
// has seen the question.
func typeUnseen(ctx context.Context, master, slave *os.File, text string) error {
	for ctx.Err() == nil {
		state, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
		if err != nil {
			return err
		}
		if state.Lflag&(unix.ICANON|unix.ECHO) == 0 {
			_, err = master.WriteString(text)
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return ctx.Err()
}
