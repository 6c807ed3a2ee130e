package proc

import "testing"

// FuzzParseStat gives a process whatever name: what the kernel says of it is
// read all the same, and a line that is none is not.
func FuzzParseStat(f *testing.F) {
	for _, seed := range []string{"bash", "a) R 1 1 (b", ")", "(", "\n", "x) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21", ""} {
		f.Add(seed, []byte("42 ("+seed))
	}
	f.Fuzz(func(t *testing.T, name string, line []byte) {
		parseStat(line) // does not panic
		got, ok := parseStat([]byte("42 (" + name + ") S 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 123456 1 2 3\n"))
		if !ok || got.PID != 42 || got.Parent != 7 || got.Session != 9 || got.Start != 123456 || !got.Alive || got.Stopped {
			t.Errorf("%q: %+v, %t", name, got, ok)
		}
	})
}
