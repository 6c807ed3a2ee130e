package ratios

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	bounds := Bounds{"exec": {"objects of a command", 100}}
	for name, c := range map[string]struct {
		figures map[string]float64
		want    []string // in the error; none is no error
	}{
		"as before":           {map[string]float64{"exec": 100}, nil},
		"a little more":       {map[string]float64{"exec": 119}, nil},
		"a little less":       {map[string]float64{"exec": 84}, nil},
		"a fifth more":        {map[string]float64{"exec": 121}, []string{"exec grew from 100 to 121 (+21%)", "objects of a command"}},
		"a fifth less":        {map[string]float64{"exec": 83}, []string{"exec fell from 100 to 83 (-17%)", "-update"}},
		"without a bound":     {map[string]float64{"exec": 100, "claim": 3}, []string{"claim is 3 and has no bound"}},
		"without its figure":  {map[string]float64{}, []string{"exec has a bound and was not measured"}},
		"all that is to mend": {map[string]float64{"claim": 3}, []string{"claim is 3", "exec has a bound"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := bounds.Check(c.figures)
			if (err == nil) != (c.want == nil) {
				t.Fatalf("Check(%v) = %v", c.figures, err)
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("Check(%v) = %v, without %q", c.figures, err, part)
				}
			}
		})
	}
}

// An update lowers bounds, and keeps those that figures exceed.
func TestLower(t *testing.T) {
	t.Parallel()
	before := Bounds{"less": {"a", 100}, "more": {"b", 100}, "unmeasured": {"c", 100}}
	path := filepath.Join(t.TempDir(), "bounds.json")
	if err := before.Lower(map[string]float64{"less": 5.0381, "more": 150, "new": 1}).Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := ReadBounds(path)
	if err != nil {
		t.Fatal(err)
	}
	want := Bounds{"less": {"a", 5.04}, "more": {"b", 100}, "unmeasured": {"c", 100}}
	if !maps.Equal(got, want) {
		t.Errorf("lowered to %v, want %v", got, want)
	}
	if before["less"].Bound != 100 {
		t.Error("Lower has changed the bounds that it was given")
	}
}

func TestRoundUp(t *testing.T) {
	t.Parallel()
	for x, want := range map[float64]float64{0: 0, 5.031: 5.04, 5.03: 5.03, 399.2: 400, 1234.5: 1240, 0.12345: 0.124} {
		if got := roundUp(x); got != want {
			t.Errorf("roundUp(%v) = %v, want %v", x, got, want)
		}
	}
}
