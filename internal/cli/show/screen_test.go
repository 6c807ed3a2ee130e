package show_test

import (
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/cli/show"
)

// However text is cut into pieces, it is shown as if it had come at once.
func TestScreen(t *testing.T) {
	for in, want := range map[string]string{
		"a\n\tb\r\n":           "a\n\tb\\r\n",
		"\x1b]52;c;aGk=\x07ok": `\x1b]52;c;aGk=\aok`,
		"ä日本😀\u009b31m":        "ä日本😀\\u009b31m",
		"cut \xe6\x97":         `cut \xe6\x97`,
		"\xffx\xc3(":           `\xffx\xc3(`,
		"\x80\x80\x80\x80\x80": `\x80\x80\x80\x80\x80`,
	} {
		for size := 1; size <= len(in); size++ {
			var out strings.Builder
			s := show.NewScreen(&out)
			for at := 0; at < len(in); at += size {
				piece := in[at:min(at+size, len(in))]
				if n, err := s.Write([]byte(piece)); n != len(piece) || err != nil {
					t.Fatal(n, err)
				}
			}
			if err := s.Flush(); err != nil || out.String() != want {
				t.Errorf("%q in pieces of %d is shown as %q, want %q", in, size, out.String(), want)
			}
		}
	}
}

func TestJSONIsHarmless(t *testing.T) {
	var out strings.Builder
	if err := show.JSON(&out, map[string]string{"a": "<\x1b\u009b\u202e\x7f\U000e0001ä😀>"}); err != nil {
		t.Fatal(err)
	}
	if want := "{\n  \"a\": \"<\\u001b\\u009b\\u202e\\u007f\\udb40\\udc01ä😀>\"\n}\n"; out.String() != want {
		t.Errorf("%s", out.String())
	}
}
