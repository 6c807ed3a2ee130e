package shellproc

import (
	"fmt"
	"testing"
)

func TestParseReport(t *testing.T) {
	for _, tc := range []struct {
		report string
		want   Report
		ok     bool
	}{
		{"12- 0 /work space", Report{Seq: 12, Ran: true, Cwd: "/work space"}, true},
		{"12= 0 /work space\n", Report{Seq: 12, Ran: true, Cwd: "/work space"}, true},
		{"12- 0 /a\n", Report{Seq: 12, Ran: true, Cwd: "/a\n"}, true},
		{"12- 255 /a\nb", Report{Seq: 12, Ran: true, Code: 255, Cwd: "/a\nb"}, true},
		{"12 1 /", Report{Seq: 12, Code: 1, Cwd: "/"}, true},
		{"12- 0 ", Report{Seq: 12, Ran: true}, true},
		{"12- 256 /", Report{}, false},
		{"12- -1 /", Report{}, false},
		{"-12- 0 /", Report{}, false},
		{"99999999999999999999- 0 /", Report{}, false},
		{"x- 0 /", Report{}, false},
		{"12- 0", Report{}, false},
		{"", Report{}, false},
	} {
		got, ok := parseReport([]byte(tc.report))
		if ok != tc.ok || got != tc.want {
			t.Errorf("%q: %+v, %v; want %+v, %v", tc.report, got, ok, tc.want, tc.ok)
		}
	}
}

// FuzzParseReport reads whatever a session writes to the status pipe. What is
// taken for a report is one that a shell could have written.
func FuzzParseReport(f *testing.F) {
	for _, seed := range []string{"12- 0 /work space", "12= 0 /a\n", "1 1 /", "- 0 /", "12- 256 /", "18446744073709551615- 255 \xff", "12-= 0 /"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		got, ok := parseReport(line)
		if !ok {
			return
		}
		mark := map[bool]string{true: "-"}[got.Ran]
		again, ok := parseReport(fmt.Appendf(nil, "%d%s %d %s", got.Seq, mark, got.Code, got.Cwd))
		if !ok || again != got || got.Code < 0 || got.Code > 255 {
			t.Errorf("%q is %+v, and that is %+v", line, got, again)
		}
	})
}
