package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// word is one of a command line, with or without quotes.
var word = regexp.MustCompile(`'[^']*'|\S+`)

// The commands that the documentation's reference shows are commands, with flags and
// arguments that they take.
func TestReferenceCommands(t *testing.T) {
	text, err := os.ReadFile("../../internal/api/site/assets/calls.json")
	if err != nil {
		t.Fatal(err)
	}
	var shown struct {
		Operations map[string]struct{ CLI string }
	}
	if err := json.Unmarshal(text, &shown); err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for _, name := range []string{"token", "root.tar", "work.tar"} {
		if err := os.WriteFile(filepath.Join(".", name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parsed := 0
	for id, operation := range shown.Operations {
		if operation.CLI == "" {
			continue
		}
		line, _, _ := strings.Cut(operation.CLI, " > ") // the rest is the shell's
		line, _, _ = strings.Cut(line, " < ")
		var args []string
		for _, one := range word.FindAllString(line, -1) {
			args = append(args, strings.Trim(one, "'"))
		}
		parser, err := kong.New(new(commands), kong.Name("sandkasten"), kong.ExplicitGroups([]kong.Group{{Key: "session"}, {Key: "host"}, {Key: "other"}}))
		if err != nil {
			t.Fatal(err)
		}
		if args[0] != "sandkasten" {
			t.Errorf("%s: %s", id, operation.CLI)
		} else if _, err := parser.Parse(args[1:]); err != nil {
			t.Errorf("%s: %s: %v", id, operation.CLI, err)
		}
		parsed++
	}
	if parsed < 60 {
		t.Errorf("only %d operations have a command", parsed)
	}
}
