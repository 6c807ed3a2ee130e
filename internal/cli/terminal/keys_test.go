package terminal

import (
	"strings"
	"testing"
)

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
