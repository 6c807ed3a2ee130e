package files

import (
	"testing"
)

func TestSplitRemote(t *testing.T) {
	for arg, want := range map[string][2]string{
		"abc:": {"abc", ""}, "abc:/x": {"abc", "/x"}, "abc:a:b": {"abc", "a:b"},
		"./a:b": {}, "file": {}, "/a:b": {}, "..:x": {}, ":x": {},
	} {
		id, file, ok := Remote{Noun: "SESSION", Never: "/."}.split(arg)
		if id != want[0] || file != want[1] || ok != (want[0] != "") {
			t.Errorf("split(%q) = %q, %q, %v", arg, id, file, ok)
		}
	}
}
