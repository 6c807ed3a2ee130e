package adapter

import "testing"

func TestPlainWritesNumbersOut(t *testing.T) {
	for in, want := range map[string]string{"3.1536e+07": "31536000", "0.5": "0.5", "12": "12", "one of \"a\"": "one of \"a\""} {
		if got := plain(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}
