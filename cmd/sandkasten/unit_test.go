package main

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandkasten/sandkasten/internal/client"
	"github.com/sandkasten/sandkasten/internal/config"
)

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain äöü 日本":          "plain äöü 日本",
		"\x1b]0;title\x07":      `\x1b]0;title\a`,
		"a\nb\tc\r":             `a\nb\tc\r`,
		"\xff\xfe":              `\xff\xfe`,
		"\u009b31m":             `\u009b31m`,          // CSI in one character
		"safe\u202eelif.txt":    `safe\u202eelif.txt`, // right-to-left override
		"\u200bzero\x00\x7fend": `\u200bzero\x00\u007fend`,
		"\ufffd":                "\ufffd",
	} {
		if got := printable(in); strings.ReplaceAll(got, `\x7f`, `\u007f`) != want {
			t.Errorf("printable(%q) = %s, want %s", in, got, want)
		}
	}
	if got := visible("a\n\tb\x1b", "\n\t"); got != "a\n\tb\\x1b" {
		t.Errorf("visible = %q", got)
	}
}

func FuzzPrintable(f *testing.F) {
	f.Add("\x1b[2J\u202e\xff")
	f.Fuzz(func(t *testing.T, s string) {
		for _, r := range printable(s) {
			if r < ' ' || r >= 0x7f && r < 0xa0 {
				t.Errorf("printable(%q) lets %U through", s, r)
			}
		}
	})
}

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

func TestKeysThatDetach(t *testing.T) {
	tests := map[string]struct {
		typed  []string // as the keyboard delivers it
		pass   string
		detach bool
	}{
		"plain":             {[]string{"ls\r"}, "ls\r", false},
		"ctrl-backslash":    {[]string{"ab\x1ccd"}, "ab", true},
		"tilde dot at once": {[]string{"~."}, "", true},
		"after return":      {[]string{"ls\r", "~", "."}, "ls\r", true},
		"after newline":     {[]string{"ls\n~."}, "ls\n", true},
		"in a line":         {[]string{"a~."}, "a~.", false},
		"doubled":           {[]string{"~~."}, "~.", false},
		"other key":         {[]string{"~", "x"}, "~x", false},
		"home directory":    {[]string{"cd ~/x\r~/y\r"}, "cd ~/x\r~/y\r", false},
		"tilde then return": {[]string{"~\r~."}, "~\r", true},
		"ctrl-c and ctrl-d": {[]string{"\x03\x04"}, "\x03\x04", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			k := keyFilter{lineStart: true}
			var pass strings.Builder
			detached := false
			for _, typed := range test.typed {
				bytes, detach := k.filter([]byte(typed))
				pass.Write(bytes)
				detached = detached || detach
			}
			if pass.String() != test.pass || detached != test.detach {
				t.Errorf("passed %q, detached %v; want %q, %v", pass.String(), detached, test.pass, test.detach)
			}
		})
	}
}

func TestSizeAndSpan(t *testing.T) {
	for in, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 5 << 20: "5.0 MiB", 3 << 40: "3.0 TiB", 5000 << 40: "5000.0 TiB"} {
		if got := size(in); got != want {
			t.Errorf("size(%d) = %s, want %s", in, got, want)
		}
	}
	for in, want := range map[time.Duration]string{-time.Second: "0s", 59 * time.Second: "59s", 61 * time.Second: "1m", 90 * time.Minute: "1h", 49 * time.Hour: "2d"} {
		if got := span(in); got != want {
			t.Errorf("span(%v) = %s, want %s", in, got, want)
		}
	}
}

func TestExitCodesAndWhatIsSaid(t *testing.T) {
	refused := &client.Error{Status: 404, Code: "not_found", Message: "no such session\x1b[2J"}
	tests := map[string]struct {
		err  error
		code int
		says string
	}{
		"fine":           {nil, 0, ""},
		"command's code": {codeError(7), 7, ""},
		"ctrl-c":         {signalError{syscall.SIGINT}, 130, ""},
		"terminated":     {errors.Join(signalError{syscall.SIGTERM}), 143, ""},
		"refused":        {refused, 1, `no such session\x1b[2J`},
		"refused in run": {notRunError{refused}, 125, `no such session`},
		"no daemon":      {&client.UnreachableError{URL: "http://x", Cause: errors.New("refused")}, 3, "start one with `sandkasten daemon`"},
		"no daemon, run": {notRunError{&client.UnreachableError{URL: "http://x", Cause: errors.New("refused")}}, 125, "no daemon at http://x"},
		"bad key":        {&client.Error{Code: "unauthenticated", Message: "a key is needed"}, 1, "SANDKASTEN_API_KEY"},
		"internal":       {&client.Error{Code: "internal", Message: "internal error", RequestID: "r1"}, 1, "Request id: r1"},
		"configuration":  {&config.Error{Problems: []config.Problem{{Where: "line 1", Key: "x", Message: "unknown key"}}}, 2, "line 1: x: unknown key"},
		"something else": {errors.New("disk is full"), 1, "sandkasten: disk is full"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var said strings.Builder
			a := &app{err: &said}
			if code := a.exit(test.err); code != test.code {
				t.Errorf("exit code = %d, want %d", code, test.code)
			}
			if !strings.Contains(said.String(), test.says) || test.says == "" && said.Len() > 0 {
				t.Errorf("said %q, want %q in it", said.String(), test.says)
			}
		})
	}
}

func TestHowACommandEnds(t *testing.T) {
	for _, test := range []struct {
		result client.ExecResult
		want   error
	}{
		{client.ExecResult{Cause: "exited"}, nil},
		{client.ExecResult{Cause: "exited", ExitCode: 3}, codeError(3)},
		{client.ExecResult{Cause: "signaled", ExitCode: 137}, codeError(137)},
		{client.ExecResult{Cause: "timeout", ExitCode: 143}, codeError(124)},
		{client.ExecResult{Cause: "sandbox_gone", ExitCode: 137}, codeError(125)},
	} {
		if got := ended(test.result); got != test.want {
			t.Errorf("ended(%+v) = %v, want %v", test.result, got, test.want)
		}
	}
}

func TestSplitRemote(t *testing.T) {
	for arg, want := range map[string][2]string{
		"abc:": {"abc", ""}, "abc:/x": {"abc", "/x"}, "abc:a:b": {"abc", "a:b"},
		"./a:b": {}, "file": {}, "/a:b": {}, "..:x": {}, ":x": {},
	} {
		id, file, ok := remote{"SESSION", "/."}.split(arg)
		if id != want[0] || file != want[1] || ok != (want[0] != "") {
			t.Errorf("split(%q) = %q, %q, %v", arg, id, file, ok)
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
	if cause := context.Cause(ctx); cause != (signalError{syscall.SIGTERM}) {
		t.Errorf("cause = %v", cause)
	}
}
