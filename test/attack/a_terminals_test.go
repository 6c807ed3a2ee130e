package attack

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// markup is what a browser would run and a terminal obey.
var markup = []string{
	"<script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, "javascript:alert(1)", "</script><svg onload=alert(1)>", "{{7*7}}", "'-alert(1)-'",
}

// escapes set a terminal's title and clipboard, make links, ask for its state
// and draw over what was there.
const escapes = "\x1b]0;owned\x07\x1b]2;owned\x1b\\\x1b]8;;javascript:alert(1)\x07link\x1b]8;;\x07\x1b]52;c;b3duZWQ=\x07\x1bP+q544e\x1b\\\x1b[21t\x1b[c\x1b[6n\x1b[2J\x1b[1;1H\x9b31m\u202eowned"

// A10: there is no dashboard, so what a session prints and is called reaches
// people by the documentation's pages, the answers of the API in a browser and
// the command line in a terminal. None of them runs or obeys any of it.
func TestA10_MarkupAndEscapes(t *testing.T) {
	s := stage(t, "")
	b := s.a.session(t, nil)
	for _, text := range markup {
		for what, a := range map[string]reply{
			"an error":    s.a.do(t, "POST", "/v1/sessions", map[string]any{"image": text}),
			"a field":     s.a.do(t, "POST", "/v1/sessions", map[string]any{text: text}),
			"a path":      s.a.do(t, "GET", "/v1/"+strings.NewReplacer(" ", "%20", `"`, "%22", "<", "%3C", ">", "%3E", "{", "%7B", "}", "%7D").Replace(text), nil),
			"a page":      s.a.do(t, "GET", "/docs/"+strings.NewReplacer(" ", "%20", `"`, "%22", "<", "%3C", ">", "%3E", "{", "%7B", "}", "%7D").Replace(text), nil),
			"output":      b.do(t, "POST", b.at("/exec"), map[string]any{"cmd": "cat", "stdin": text}),
			"a file name": b.do(t, "GET", b.file("list", "."), nil),
			"a file":      b.do(t, "GET", b.file("read", "missing"+text), nil),
		} {
			if kind := a.header.Get("Content-Type"); !strings.HasPrefix(kind, "application/json") || a.header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s with %s: type %s, %s", what, text, kind, a.header.Get("X-Content-Type-Options"))
			}
		}
	}
	for _, page := range []string{"/docs/", "/docs/api.html", "/docs/security.html"} {
		a := s.a.do(t, "GET", page, nil)
		policy := a.header.Get("Content-Security-Policy")
		for _, rule := range []string{"default-src 'none'", "script-src 'self'", "base-uri 'none'", "frame-ancestors 'none'"} {
			if !strings.Contains(policy, rule) {
				t.Errorf("%s: the policy %q has no %s", page, policy, rule)
			}
		}
		if strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") {
			t.Errorf("%s: the policy is %q", page, policy)
		}
	}
	s.terminals(t, b)
}

// terminals has the command line show what the session made, on a terminal. Not
// with exec and shell, which give who runs a command its output as it is, as ssh
// does.
func (s *scene) terminals(t *testing.T, b *target) {
	t.Helper()
	b.put(t, "e.py", `
import os, sys
text = bytes.fromhex(sys.argv[1])
sys.stdout.buffer.write(text + b"\n"); sys.stdout.flush()
os.makedirs("d", exist_ok=True)
open(b"d/" + text.replace(b"/", b"_")[:200], "w").write("needle\n")
`)
	made := b.run(t, fmt.Sprintf("python3 e.py %x", escapes))
	raw := b.do(t, "POST", b.at("/exec"), map[string]any{"cmd": fmt.Sprintf("python3 e.py %x", escapes), "raw_output": true})
	if strings.Contains(raw.body, "\x1b") || !strings.Contains(raw.body, `"output`) {
		t.Errorf("as raw output: %q", raw.body)
	}
	if strings.Contains(made.Output, "\x1b") {
		t.Errorf("a command's output has control sequences: %q", made.Output)
	}
	text, err := json.Marshal(escapes)
	if err != nil {
		t.Fatal(err)
	}
	s.a.do(t, "POST", b.at("/processes"), fmt.Sprintf(`{"cmd":["true",%s],"background":true}`, text)).sane(t, "a process")
	for _, args := range [][]string{
		{"ls"},
		{"ps", b.id},
		{"logs", b.id},
		{"logs", b.id, made.ExecID},
		{"fs", "ls", b.id, "d"},
		{"fs", "find", b.id, "*", "d"},
		{"fs", "grep", b.id, "needle", "d"},
		{"shells", b.id},
		{"stats", b.id},
		{"snapshot", "ls"},
		{"fs", "ls", b.id, escapes},
		{"exec", b.id + escapes, "true"},
		{"fs", "cat", b.id, "missing" + escapes},
		{"ports", b.id},
		{"image", "inspect", escapes},
		{"rm", escapes},
	} {
		shown, err := onTerminal(t, s.a.cli(t, args...))
		for _, sequence := range []string{"\x1b]", "\x1bP", "\x1b[21t", "\x1b[c", "\x1b[6n", "\x1b[2J", "\x1b[1;1H", "\x9b", "\u202e", "\x07"} {
			if strings.Contains(shown, sequence) {
				t.Errorf("sandkasten %q sends %q to the terminal: %q (%v)", args, sequence, shown, err)
			}
		}
		if shown == "" {
			t.Errorf("sandkasten %q shows nothing", args)
		}
	}
}

// onTerminal runs a command on a terminal of its own, and returns what was
// shown there.
func onTerminal(t testing.TB, cmd *exec.Cmd) (string, error) {
	t.Helper()
	var line []string
	for _, arg := range cmd.Args {
		line = append(line, "'"+strings.ReplaceAll(arg, "'", `'\''`)+"'")
	}
	on := exec.CommandContext(t.Context(), "script", "--quiet", "--return", "--command", strings.Join(line, " "), "/dev/null")
	on.Env = append(cmd.Env, "SHELL=/bin/sh", "TERM=xterm")
	text, err := on.CombinedOutput()
	return string(text), err
}
