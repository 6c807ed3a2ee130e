package linux

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/sandbox/seccomp/seccomptest"
)

// L01: the written table of every system call is what a session meets: each that
// it refuses is made from inside, in both modes, with arguments that no call can
// use, and comes back with the table's error.
func TestL01_WrittenTable(t *testing.T) {
	for mode, column := range map[string]int{"strict": 2, "mvp": 3} {
		t.Run(mode, func(t *testing.T) {
			list, want := refusedCalls(t, column)
			b := newBox(t, func(s *runtime.Spec) { s.Seccomp = runtime.SeccompMode(mode) })
			answers := b.answers(`$PROBE calls`, list)
			for name, refusal := range want {
				if answers[name] != refusal {
					t.Errorf("%s: %s, not %s", name, answers[name], refusal)
				}
			}
			b.guard()
		})
	}
}

// refusedCalls reads the table: the calls that a column refuses whatever their
// arguments are, and with which error.
func refusedCalls(t *testing.T, column int) (list []call, want map[string]string) {
	t.Helper()
	want = map[string]string{}
	for line := range strings.Lines(seccomptest.Calls) {
		fields := strings.Fields(line)
		if len(fields) != 5 || fields[0] == "#" || fields[column] == "allow" || fields[column] == "args" {
			continue
		}
		name, refusal := fields[1], fields[column]
		if name == "vhangup" || strings.HasSuffix(name, "probe") {
			continue // has no arguments to get wrong; kills its caller by design
		}
		c := call{Name: name, Args: []any{-1, -1, -1, -1, -1, -1}}
		if _, err := fmt.Sscan(fields[0], &c.Nr); err != nil {
			t.Fatal(err)
		}
		if refusal == "EINVAL" {
			c.Args[3], c.Args[5] = 0, 0 // no wrong flags: the descriptors are wrong enough
		}
		list, want[name] = append(list, c), refusal
	}
	if len(list) < 80 {
		t.Fatalf("only %d calls are refused", len(list))
	}
	return list, want
}
