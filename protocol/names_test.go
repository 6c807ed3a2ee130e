package protocol_test

import (
	"testing"
	"unicode/utf8"

	"github.com/sandkasten/sandkasten/protocol"
)

func TestNamesAsText(t *testing.T) {
	for name, want := range map[string]string{
		"a.txt": "a.txt", "ä€😀": "ä€😀", "a\\b": "a\\b", `a\x41`: `a\x41`, `\x2f`: `\x2f`, "\uFFFD": "\uFFFD",
		"caf\xe9": `caf\xe9`, "\xd7\xca\xc1\xcf.txt": `\xd7\xca\xc1\xcf.txt`, `caf\xe9`: `caf\x5cxe9`, `\x5c`: `\x5cx5c`, `\xFF`: `\x5cxFF`,
	} {
		if got := protocol.EscapeName(name); got != want || protocol.UnescapeName(got) != name {
			t.Errorf("%q is %q and comes back as %q; want %q", name, got, protocol.UnescapeName(got), want)
		}
	}
	if got := protocol.UnescapeName(`caf\xE9`); got != "caf\xe9" {
		t.Errorf("large digits: %q", got)
	}
}

func FuzzNames(f *testing.F) {
	for _, seed := range []string{"a", "\xff\\x5c", `\x5cx80`, "\\\\x\xe9"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		text := protocol.EscapeName(name)
		if back := protocol.UnescapeName(text); back != name || !utf8.ValidString(text) {
			t.Errorf("%q is %q and comes back as %q", name, text, back)
		}
	})
}
