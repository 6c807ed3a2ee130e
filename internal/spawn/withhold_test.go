//go:build !cgo

package spawn

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"
)

// global is in the program's data.
var global = 1

// A child with copied memory gets neither the heap nor the data, but its image.
func TestOwnMemoryIsWithheld(t *testing.T) {
	heap := make([]byte, 1<<20)
	withhold()
	m, err := newImage(100, Copied)
	if err != nil {
		t.Fatal(err)
	}
	defer m.free()
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		at       unsafe.Pointer
		withheld bool
	}{
		"heap":  {unsafe.Pointer(&heap[0]), true},
		"data":  {unsafe.Pointer(&global), true},
		"image": {unsafe.Pointer(&m.mem[0]), false},
	} {
		flags, ok := flagsOf(string(text), uintptr(tc.at))
		if !ok || strings.Contains(flags, " dc") != tc.withheld {
			t.Errorf("%s: flags%s", name, flags)
		}
	}
}

// flagsOf returns the flags of the memory at an address in the text of smaps.
func flagsOf(text string, at uintptr) (flags string, ok bool) {
	inside := false
	for line := range strings.Lines(text) {
		var from, to uintptr
		if n, err := fmt.Sscanf(line, "%x-%x ", &from, &to); n == 2 && err == nil {
			inside = from <= at && at < to
		}
		if f, isFlags := strings.CutPrefix(line, "VmFlags:"); isFlags && inside {
			return f, true
		}
	}
	return "", false
}
