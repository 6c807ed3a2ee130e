//go:build !cgo

package spawn

import (
	"os"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// withheld is how much memory the Go runtime had when it was last kept from
// children.
var withheld struct {
	sync.Mutex
	total uint64
}

// withhold keeps this process's own memory out of the copies that children get:
// they need their image and the program's text only. Copying the page tables,
// dropping them at exec, and the faults on our own pages in between take longer
// than all else of a start. Memory that is overlooked, as what the runtime maps
// while this runs, is copied and no harm done.
func withhold() {
	total := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
	metrics.Read(total)
	withheld.Lock()
	defer withheld.Unlock()
	if total[0].Value.Uint64() == withheld.total {
		return
	}
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return
	}
	withheld.total = total[0].Value.Uint64()
	for line := range strings.Lines(string(text)) {
		if from, to, ok := ownMemory(line); ok {
			if _, _, e := unix.RawSyscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTFORK); e != 0 {
				continue // it went away meanwhile
			}
		}
	}
}

// ownMemory returns the addresses of a line of /proc/self/maps that tells of
// memory that can be written and is nobody else's.
func ownMemory(line string) (from, to uintptr, ok bool) {
	span, rest, _ := strings.Cut(line, " ")
	if !strings.HasPrefix(rest, "rw-p ") {
		return 0, 0, false
	}
	low, high, _ := strings.Cut(span, "-")
	a, err1 := strconv.ParseUint(low, 16, 64)
	b, err2 := strconv.ParseUint(high, 16, 64)
	return uintptr(a), uintptr(b), err1 == nil && err2 == nil
}
