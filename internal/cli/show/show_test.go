package show_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/cli/show"
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
		if got := show.Printable(in); strings.ReplaceAll(got, `\x7f`, `\u007f`) != want {
			t.Errorf("show.Printable(%q) = %s, want %s", in, got, want)
		}
	}
	if got := show.Visible("a\n\tb\x1b", "\n\t"); got != "a\n\tb\\x1b" {
		t.Errorf("visible = %q", got)
	}
}

func FuzzPrintable(f *testing.F) {
	f.Add("\x1b[2J\u202e\xff")
	f.Fuzz(func(t *testing.T, s string) {
		for _, r := range show.Printable(s) {
			if r < ' ' || r >= 0x7f && r < 0xa0 {
				t.Errorf("show.Printable(%q) lets %U through", s, r)
			}
		}
	})
}

func TestSizeAndSpan(t *testing.T) {
	for in, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 5 << 20: "5.0 MiB", 3 << 40: "3.0 TiB", 5000 << 40: "5000.0 TiB"} {
		if got := show.Size(in); got != want {
			t.Errorf("show.Size(%d) = %s, want %s", in, got, want)
		}
	}
	for in, want := range map[time.Duration]string{-time.Second: "0s", 59 * time.Second: "59s", 61 * time.Second: "1m", 90 * time.Minute: "1h", 49 * time.Hour: "2d"} {
		if got := show.Span(in); got != want {
			t.Errorf("show.Span(%v) = %s, want %s", in, got, want)
		}
	}
}
