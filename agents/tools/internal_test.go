package tools

import (
	"encoding/base64"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPathsOfOneFile(t *testing.T) {
	for name, want := range map[string]string{
		"a": "/workspace/a", "/workspace/a": "/workspace/a", "workspace/a": "/workspace/a", "./a": "/workspace/a", "a/": "/workspace/a",
		"a//b/./c": "/workspace/a/b/c", "": "/workspace", ".": "/workspace", "/workspace": "/workspace", "workspace": "/workspace",
		"/workspace/workspace/a": "/workspace/workspace/a", "...": "/workspace/...", "a..b": "/workspace/a..b",
		"/": "", "/etc": "", "..": "", "a/../b": "", "/workspacex": "", "/workspace/..": "",
	} {
		got, err := workspacePath("path", name)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, %v; want %q", name, got, err, want)
		}
	}
}

func TestShortenKeepsHeadAndTail(t *testing.T) {
	text := "begin" + strings.Repeat("ä", 5000) + "end"
	short, cut := shorten(text, 1000, "read on")
	if !cut || !utf8.ValidString(short) || !strings.HasPrefix(short, "beginä") || !strings.HasSuffix(short, "äend") ||
		!strings.Contains(short, "bytes cut; read on") || len(short) > 1100 {
		t.Errorf("got %d bytes: %s", len(short), short)
	}
	if same, cut := shorten("text", 4, ""); cut || same != "text" {
		t.Errorf("cut %q", same)
	}
}

func TestBinaryIsNeverText(t *testing.T) {
	data := strings.Repeat("\xff\x00", 3000)
	text, encoded, cut, err := stream("\ufffd", base64.StdEncoding.EncodeToString([]byte(data)), 1000, "")
	if err != nil || text != "" || !cut || len(encoded) > 1000 {
		t.Errorf("%q, %d bytes, %v, %v", text, len(encoded), cut, err)
	}
}

func TestWholeRunes(t *testing.T) {
	for in, want := range map[string]string{"aä": "aä", "a\xc3": "a", "\xe2\x82": "", "a": "a", "": "", "\xff": "\xff"} {
		if got := wholeRunes([]byte(in)); string(got) != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}
