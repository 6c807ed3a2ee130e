package main

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/test/attack/coverage"
)

// Each case of the list that has a test is in a row, or there is a reason why
// nothing that is taken away turns it red.
func TestEveryCaseIsAccountedFor(t *testing.T) {
	cases, err := coverage.Cases()
	if err != nil {
		t.Fatal(err)
	}
	rowed, listed := map[string]bool{}, map[string]bool{}
	for _, c := range cases {
		listed[c.ID] = true
	}
	for _, r := range rows {
		for _, id := range slices.Concat(r.ids(), r.holding()) {
			if !listed[id] {
				t.Errorf("%s has %s, which is no case", r.name(), id)
			}
		}
		for _, id := range r.ids() {
			rowed[id] = true
		}
	}
	for _, c := range cases {
		reason, excused := withoutRow[c.ID]
		switch {
		case c.Without != "":
			if rowed[c.ID] || excused {
				t.Errorf("%s has no test, and is asked for", c.ID)
			}
		case rowed[c.ID] && excused:
			t.Errorf("%s is in a row, and has a reason not to be", c.ID)
		case slices.Contains(unasked, c.ID):
			if rowed[c.ID] || excused {
				t.Errorf("%s is asked for after all", c.ID)
			}
		case !rowed[c.ID] && !excused:
			t.Errorf("%s is in no row, and has no reason", c.ID)
		case excused && len(reason) < 6:
			t.Errorf("%s: that is no reason: %q", c.ID, reason)
		}
	}
	for _, id := range slices.Concat(slices.Collect(maps.Keys(withoutRow)), unasked) {
		if !listed[id] {
			t.Errorf("%s is no case", id)
		}
	}
}

// What docs/security.md shows is what was found, and that is what the table
// promises of every row that was run.
func TestMatrixIsTheTables(t *testing.T) {
	matrix, err := readMatrix("matrix.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		found, ran := matrix[r.name()]
		if !ran {
			continue // the page says so
		}
		for _, id := range r.ids() {
			if !slices.Contains(found, id) {
				t.Errorf("%s did not notice that %s is off", id, r.name())
			}
		}
	}
	page, err := os.ReadFile("../../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	if want, err := withMatrix(string(page), matrix); err != nil || want != string(page) {
		t.Errorf("docs/security.md has another matrix than matrix.json, %v", err)
	}
}

func TestRead(t *testing.T) {
	o := read("=== RUN   TestK01_A\n    x_test.go:7: achieved\n--- FAIL: TestK01_A (0.1s)\n    --- FAIL: TestK02_Sub (0s)\n--- PASS: TestK03_B (1s)\n"+
		"--- PASS: TestT06_C (1s)\n--- FAIL: TestT06_D (1s)\n--- FAIL: TestT07_D (1s)\n--- PASS: TestT07_E (1s)\nFAIL\n", []string{"K01", "K02", "K03", "T06", "T07"})
	if !slices.Equal(o.red, []string{"K01", "T06", "T07"}) || !slices.Equal(o.green, []string{"K03"}) || !slices.Equal(o.absent, []string{"K02"}) {
		t.Errorf("red %v, green %v, absent %v", o.red, o.green, o.absent)
	}
	if why := o.why(); len(why) != 1 || !strings.HasPrefix(why[0], "TestK01_A: x_test.go:7: achieved") {
		t.Errorf("%q", why)
	}
}

func TestWrong(t *testing.T) {
	r := row{cases: "K01 K02 K03", holds: "K04 K05"}
	unnoticed, broken := outcome{red: []string{"K01", "K04"}, green: []string{"K02", "K05"}, absent: []string{"K03"}}.wrong(r)
	if !slices.Equal(unnoticed, []string{"K02", "K03"}) || !slices.Equal(broken, []string{"K04"}) {
		t.Errorf("unnoticed %v, broken %v", unnoticed, broken)
	}
}
