//go:build weaken

package protection

import (
	"os"
	"slices"
	"strings"
)

const variable = "SANDKASTEN_TEST_WEAKEN"

// Off reports whether a protection is taken away.
func Off(p Protection) bool { return slices.Contains(Named(), p) }

// Environ is what a process that we start must have in its environment to know
// the same as we.
func Environ() []string { return []string{variable + "=" + os.Getenv(variable)} }

// Named returns the protections that are off.
func Named() []Protection {
	var named []Protection
	for name := range strings.SplitSeq(os.Getenv(variable), ",") {
		if name != "" {
			named = append(named, Protection(name))
		}
	}
	return named
}
