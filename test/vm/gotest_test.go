package vm

import (
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/test/vm/guest"
)

// What a test binary prints under -test.v=test2json: its own lines begin with
// a ^V.
const (
	goodOutput  = "\x16=== RUN   TestGood\n\x16=== RUN   TestGood/sub\n    x_test.go:3: hi\n\x16--- PASS: TestGood/sub (0.00s)\n\x16=== NAME  TestGood\n\x16--- PASS: TestGood (0.00s)\n\x16=== NAME  \n"
	badOutput   = "\x16=== RUN   TestBad\nwhy it is bad\n\x16--- FAIL: TestBad (0.10s)\n\x16=== NAME  \n"
	lazyOutput  = "\x16=== RUN   TestLazy\n    x_test.go:5: no kvm\n\x16--- SKIP: TestLazy (0.00s)\n\x16=== NAME  \n"
	stuckOutput = "\x16=== RUN   TestStuck\n"
)

func TestParseTests(t *testing.T) {
	for _, c := range []struct {
		name   string
		output string
		end    *guest.End
		want   map[string]string // test name -> action; "" is the package
	}{
		{
			"failing package", goodOutput + badOutput + lazyOutput + "\x16FAIL\n", &guest.End{Code: 1},
			map[string]string{"": "fail", "TestGood": "pass", "TestGood/sub": "pass", "TestBad": "fail", "TestLazy": "skip"},
		},
		{
			"passing package", goodOutput + "\x16PASS\n", &guest.End{},
			map[string]string{"": "pass", "TestGood": "pass", "TestGood/sub": "pass"},
		},
		{"leak after PASS", "\x16PASS\nleaked\n", &guest.End{Code: 1}, map[string]string{"": "fail"}},
		{"test that never ended", stuckOutput, nil, map[string]string{"": "fail", "TestStuck": "fail"}},
		{"killed", "\x16PASS\n", &guest.End{TimedOut: true}, map[string]string{"": "fail"}},
		{"no output", "", &guest.End{Code: 127}, map[string]string{"": "fail"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			outcomes, err := parseTests(t.Context(), "p", strings.NewReader(c.output), c.end)
			if err != nil {
				t.Fatal(err)
			}
			if len(outcomes) != len(c.want) {
				t.Errorf("%d outcomes, want %d: %+v", len(outcomes), len(c.want), outcomes)
			}
			for _, o := range outcomes {
				if o.Action != c.want[o.Test] {
					t.Errorf("%q: %s, want %s\n%s", o.Test, o.Action, c.want[o.Test], o.Output)
				}
				if o.Test == "TestBad" && !strings.Contains(o.Output, "why it is bad\n") {
					t.Errorf("the failure's output is lost: %q", o.Output)
				}
			}
		})
	}
}

func TestTranscriptTellsEndsOnce(t *testing.T) {
	var tr transcript
	var got []string
	for _, part := range []string{goodOutput[:90], goodOutput[90:], badOutput, lazyOutput[:40], lazyOutput[40:]} {
		tr.WriteString(part)
		got = append(got, tr.marked(testEnds)...)
	}
	want := "PASS: TestGood (0.00s),FAIL: TestBad (0.10s),SKIP: TestLazy (0.00s)"
	if strings.Join(got, ",") != want {
		t.Errorf("%q, want %s", got, want)
	}
}

func TestReadEvents(t *testing.T) {
	const end = `{"job":0,"end":{"code":0,"timed_out":false,"duration":1}}` + "\n"
	for _, c := range []struct{ name, stream, wantErr string }{
		{"whole", `{"job":0,"output":"aGk="}` + "\n" + end, ""},
		{"cut", `{"job":0,"output":"aGk="}` + "\n", "after 0 of 1 jobs"},
		{"fault", `{"job":0,"fault":"no disk"}` + "\n", "no disk"},
	} {
		var output []byte
		err := readEvents(strings.NewReader(c.stream), 1, func(ev guest.Event) { output = append(output, ev.Output...) })
		if (c.wantErr == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.wantErr) {
			t.Errorf("%s: %v, want %q", c.name, err, c.wantErr)
		}
		if c.name == "whole" && string(output) != "hi" {
			t.Errorf("output %q", output)
		}
	}
}

func TestScriptsEndByTheirExitCode(t *testing.T) {
	script := Script{Name: "unit"}
	for name, test := range map[string]struct {
		end  *guest.End
		want string
	}{
		"passed": {&guest.End{}, "pass"},
		"failed": {&guest.End{Code: 3}, "fail"},
		"killed": {&guest.End{TimedOut: true}, "fail"},
		"no end": {nil, "fail"},
	} {
		if got := script.outcome("== a heading\n", test.end); got.Package != "unit" || got.Action != test.want {
			t.Errorf("%s: %+v, want %s", name, got, test.want)
		}
	}
	suite := Suite{Packages: []TestPackage{{ImportPath: "a/package"}}, Scripts: []Script{script}}
	var tr transcript
	name, mark := suite.jobName(1)
	tr.WriteString("noise\n== a heading\n\x16--- PASS: TestNothing (0s)\n")
	if got := tr.marked(mark); name != "unit" || len(got) != 1 || got[0] != "a heading" {
		t.Errorf("%s tells of %q", name, got)
	}
}
