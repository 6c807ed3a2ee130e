package api_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/api"
)

// plain passes text through a Plain in pieces of n bytes.
func plain(t testing.TB, text string, n int) string {
	t.Helper()
	var out bytes.Buffer
	p := api.NewPlain(&out)
	for rest := []byte(text); len(rest) > 0; {
		piece := rest[:min(n, len(rest))]
		rest = rest[len(piece):]
		if written, err := p.Write(piece); err != nil || written != len(piece) {
			t.Fatalf("Write gave %d, %v", written, err)
		}
	}
	if err := p.Flush(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestPlain(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"text", "hello\n", "hello\n"},
		{"colours", "\x1b[1;31mred\x1b[0m\n", "red\n"},
		{"CSI with intermediates and private parameters", "a\x1b[?25l\x1b[0 qb", "ab"},
		{"cursor movement", "a\x1b[2Jb\x1b[10;20Hc", "abc"},
		{"title, ended by BEL", "\x1b]0;title\x07x", "x"},
		{"title, ended by ST", "\x1b]2;title\x1b\\x", "x"},
		{"hyperlink", "\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\!", "link!"},
		{"clipboard", "\x1b]52;c;aGk=\x07x", "x"},
		{"DCS with newlines", "\x1bPq\n#0\n\x1b\\x", "x"},
		{"APC, PM and SOS", "\x1b_a\x1b\\\x1b^b\x1b\\\x1bXc\x1b\\x", "x"},
		{"charset", "\x1b(Ba\x1b)0b\x1b%Gc\x1b#8d", "abcd"},
		{"single letter", "\x1b7a\x1b8\x1bMb\x1bc", "ab"},
		{"CRLF", "a\r\nb\r\n", "a\nb\n"},
		{"run of CR before LF", "a\r\r\r\nb", "a\nb"},
		{"progress bar", "10%\r50%\r100%\n", "10%\n50%\n100%\n"},
		{"CR at the end", "a\r", "a\n"},
		{"CR, erase line, LF", "a\r\x1b[K\nb", "a\nb"},
		{"CR, erase line, text", "a\r\x1b[Kb", "a\nb"},
		{"string without end hides its line only", "\x1b]0;oops\nkept", "\nkept"},
		{"DCS without end hides its line only", "\x1bPoops\nkept\r\n\x1b[0mtoo", "\nkept\ntoo"},
		{"DCS without end at the end", "a\x1bPoops\n\n12 failed\r\ndone\r", "a\n\n12 failed\ndone\n"},
		{"DCS that never ends", "\x1bPq\n" + strings.Repeat("x", 70<<10), "\n" + strings.Repeat("x", 70<<10)},
		{"DCS in a DCS", "\x1bPa\nb\x1bPc\nd\x1b\\e", "\nbe"},
		{"CAN ends a sequence", "\x1b[12\x18a\x1b]x\x1ab", "ab"},
		{"newline in CSI", "\x1b[12\nb", "\nb"},
		{"ESC in CSI begins anew", "\x1b[1\x1b[31mb", "b"},
		{"ESC at the end", "a\x1b", "a"},
		{"CSI at the end", "a\x1b[31", "a"},
		{"invalid UTF-8 stays", "a\xff\xc3\x1b[0m\xa4b", "a\xff\xc3\xa4b"},
		{"other control bytes stay", "a\x00\x08\x07\tb", "a\x00\x08\x07\tb"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, n := range []int{1, 2, 3, len(tt.in)} {
				if got := plain(t, tt.in, n); got != tt.want {
					t.Errorf("in pieces of %d: %q, want %q", n, got, tt.want)
				}
			}
		})
	}
}

// TestPlainHeld begins anew Held bytes earlier at every position, as a client
// does whose stream broke there.
func TestPlainHeld(t *testing.T) {
	const text = "a\r\x1b[1;3\x1b[Kb\x1b]0;t\x1b\\c\r\r\nd\x1bPx\x1b\\\re"
	want := plain(t, text, len(text))
	for at := range len(text) {
		var out bytes.Buffer
		p := api.NewPlain(&out)
		if _, err := p.Write([]byte(text[:at])); err != nil {
			t.Fatal(err)
		}
		if got := out.String() + plain(t, text[int64(at)-p.Held():], 100); got != want {
			t.Errorf("broken at %d with %d held: %q, want %q", at, p.Held(), got, want)
		}
	}
}

// TestPlainHidden has control strings without an end counted, of every kind and wherever
// they are given up, and those with an end not.
func TestPlainHidden(t *testing.T) {
	tests := []struct {
		name, in string
		want     int64
	}{
		{"none", "\x1b[1;31mred\x1b[0m\r\n", 0},
		{"strings with an end", "\x1b]0;title\x07\x1bPq\n#0\x1b\\\x1b_a\x1b\\\x1b^b\x1b\\\x1bXc\x18", 0},
		{"OSC up to its line's end", "\x1b]0;12 failed\nkept", 11},
		{"APC, PM and SOS", "\x1b_abc\n\x1b^de\n\x1bXf\n", 6},
		{"DCS, of which the later lines are shown", "\x1bPoops\nkept", 4},
		{"DCS with more lines than are held", "\x1bPoops\n" + strings.Repeat("x", 70<<10), 4},
		{"string that is open at the end", "done\x1b]12 failed", 9},
		{"string cut by a sequence", "\x1b_abc\x1b[0mtext", 3},
		{"string in one that has no end", "\x1bPa\nb\x1bPc\nd\x1b\\e", 1},
		{"long line", "\x1bX" + strings.Repeat("x", 1<<20), 1 << 20},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, n := range []int{1, 3, len(tt.in)} {
				p := api.NewPlain(discard{})
				for rest := []byte(tt.in); len(rest) > 0; rest = rest[min(n, len(rest)):] {
					if _, err := p.Write(rest[:min(n, len(rest))]); err != nil {
						t.Fatal(err)
					}
				}
				before := p.Hidden()
				if err := p.Flush(); err != nil {
					t.Fatal(err)
				}
				if before != tt.want || p.Hidden() != tt.want {
					t.Errorf("in pieces of %d: %d hidden, %d after the end, want %d", n, before, p.Hidden(), tt.want)
				}
			}
		})
	}
}

func TestPlainPassesErrorsOn(t *testing.T) {
	p := api.NewPlain(broken{})
	if _, err := p.Write([]byte("x")); !errors.Is(err, errBroken) {
		t.Errorf("Write gave %v", err)
	}
	p = api.NewPlain(broken{})
	if _, err := p.Write([]byte("\r")); err != nil {
		t.Errorf("Write of a byte that is held back gave %v", err)
	}
	if err := p.Flush(); !errors.Is(err, errBroken) {
		t.Errorf("Flush gave %v", err)
	}
}

var errBroken = errors.New("broken")

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }

func FuzzPlain(f *testing.F) {
	f.Add("a\x1b[31mb\r\n\x1b]0;t\x07", 2)
	f.Add("\x1bPq\x1b\x1b\\\r\r", 1)
	f.Add("\x1bPq\na\r\x1b", 1)
	f.Fuzz(func(t *testing.T, text string, n int) {
		n = max(1, n)
		whole, pieces := plain(t, text, max(1, len(text))), plain(t, text, n)
		if whole != pieces {
			t.Fatalf("in pieces of %d %q, as a whole %q", n, pieces, whole)
		}
		if strings.ContainsAny(whole, "\x1b\r") {
			t.Fatalf("%q is not plain", whole)
		}
		if !strings.ContainsAny(text, "\x1b\r") && whole != text {
			t.Fatalf("%q was plain and became %q", text, whole)
		}
	})
}

func BenchmarkPlain(b *testing.B) {
	for name, line := range map[string]string{
		"plain":   strings.Repeat("a line of ordinary output\n", 1000),
		"colours": strings.Repeat("\x1b[32ma line of\x1b[0m coloured output\r\n", 1000),
	} {
		b.Run(name, func(b *testing.B) {
			p := api.NewPlain(discard{})
			text := []byte(line)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := p.Write(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
