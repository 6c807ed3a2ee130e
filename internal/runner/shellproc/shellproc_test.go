package shellproc

import "testing"

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
