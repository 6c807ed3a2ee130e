package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestScriptsHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	var each scripts
	for value, ok := range map[string]bool{"": false, "name": false, "=true": false, "name=": false} {
		if err := each.Set(value); (err == nil) != ok {
			t.Errorf("%q: %v", value, err)
		}
	}
	if err := each.Set("a=x=1; exit $x"); err != nil || each[0] != (script{"a", "x=1; exit $x"}) {
		t.Errorf("%v, %v", each, err)
	}
	if err := each.Set("a=true"); err == nil {
		t.Error("two scripts have one name")
	}
}

// TestAPortThatIsTakenIsNotTheEnd: between the choice of a port and the start of the daemon another program may take it.
func TestAPortThatIsTakenIsNotTheEnd(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]int{"listen tcp 127.0.0.1:1: bind: address already in use": starts, "the data directory is read-only": 1} {
		dir := t.TempDir()
		program, tries := filepath.Join(dir, "program"), filepath.Join(dir, "tries")
		text := "#!/bin/sh\necho $SANDKASTEN_LISTEN >>" + tries + "\necho '" + said + "' >&2\nexit 1\n"
		if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		d, err := newDaemon(program, dir, "native")
		if err != nil {
			t.Fatal(err)
		}
		if err := d.start(t.Context()); err == nil || !strings.Contains(err.Error(), "has ended before it was ready") {
			t.Errorf("%s: %v", said, err)
		}
		asked, err := os.ReadFile(tries)
		if got := strings.Count(string(asked), "127.0.0.1:"); err != nil || got != want {
			t.Errorf("%s: %d starts, want %d: %v", said, got, want, err)
		}
	}
}

// TestWhatAScriptLeavesGoesWithItsUser: sandboxes outlive the daemon, and the owner of its first key has none of a
// user's.
func TestWhatAScriptLeavesGoesWithItsUser(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program, calls := filepath.Join(dir, "program"), filepath.Join(dir, "calls")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho \"$@\" >>"+calls+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	each := scripts{{"a", "exit 3"}}
	code, err := each.run(t.Context(), &daemon{program: program}, os.Environ())
	if code != 3 || err != nil {
		t.Errorf("%d, %v", code, err)
	}
	got, err := os.ReadFile(calls)
	if want := "user add a --admin --key\nuser rm a\n"; err != nil || string(got) != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}
