// Package ratios guards what the daemon costs: allocations and system calls per
// exec, create, claim and tool call, and the processor time of an exec as a
// multiple of that of /healthz. None of them is a time on a clock, so they hold
// on a busy machine, and the gate can fail when one grows.
//
// Each figure has a bound in testdata/bounds.json. A figure that is a fifth over
// its bound fails: the change costs something, and has to say why. One that is a
// fifth below fails as well: what was gained would be lost again without anybody
// seeing it. The flag -update lowers the bounds to what was measured. It raises
// none: that is an edit of the file, with its reason in the commit.
package ratios

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
)

// Tolerance is by which factor a figure may differ from its bound.
const Tolerance = 1.2

// Bound is what a figure may be.
type Bound struct {
	What  string  `json:"what"`
	Bound float64 `json:"bound"`
}

// Bounds are those of all figures, by their names.
type Bounds map[string]Bound

// ReadBounds reads a file of bounds.
func ReadBounds(path string) (Bounds, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	bounds := Bounds{}
	if err := json.Unmarshal(text, &bounds); err != nil {
		return nil, fmt.Errorf("parse %s: %w", path, err)
	}
	return bounds, nil
}

// Write replaces the file.
func (b Bounds) Write(path string) error {
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o600)
}

// Check compares figures with their bounds. The error names every figure that is
// out of them, that has no bound, and every bound without a figure.
func (b Bounds) Check(figures map[string]float64) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(figures)) {
		figure := figures[name]
		bound, ok := b[name]
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("%s is %.4g and has no bound: add one to the file", name, figure))
		case figure > bound.Bound*Tolerance:
			errs = append(errs, fmt.Errorf("%s grew from %.4g to %.4g (%+.0f%%): %s", name, bound.Bound, figure, 100*(figure/bound.Bound-1), bound.What))
		case figure < bound.Bound/Tolerance:
			errs = append(errs, fmt.Errorf("%s fell from %.4g to %.4g (%+.0f%%): lower its bound with go tool task test:ratios -- -update", name, bound.Bound, figure, 100*(figure/bound.Bound-1)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if _, ok := figures[name]; !ok {
			errs = append(errs, fmt.Errorf("%s has a bound and was not measured", name))
		}
	}
	return errors.Join(errs...)
}

// Lower returns the bounds with each that is above its figure lowered to it.
func (b Bounds) Lower(figures map[string]float64) Bounds {
	lowered := maps.Clone(b)
	for name, bound := range b {
		if figure, ok := figures[name]; ok && figure < bound.Bound {
			bound.Bound = roundUp(figure)
			lowered[name] = bound
		}
	}
	return lowered
}

// roundUp keeps three digits, which is more than a figure repeats.
func roundUp(x float64) float64 {
	if x <= 0 {
		return x
	}
	unit := math.Pow(10, math.Floor(math.Log10(x))-2)
	return math.Round(math.Ceil(x/unit)*unit*1e6) / 1e6
}
