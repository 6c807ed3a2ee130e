package heap

import (
	"os"
	"os/exec"
	"runtime/metrics"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestLimit(t *testing.T) {
	const mib = 1 << 20
	for live, want := range map[int64]int64{0: 64, 8: 72, 64: 128, 100: 200, 1000: 2000} {
		if got := limitFor(usage{live: live * mib, beside: 10 * mib}); got != (want+10)*mib {
			t.Errorf("%d MiB live: %d MiB, want %d", live, got/mib, want+10)
		}
	}
}

// A process with 100 MiB alive that makes garbage grows by about as much, and not
// by eight times that.
func TestPaceBoundsGarbage(t *testing.T) {
	if os.Getenv("HEAP_TEST_CHILD") != "" {
		churn(t)
		return
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPaceBoundsGarbage$", "-test.v")
	child.Env = append(os.Environ(), "HEAP_TEST_CHILD=1")
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, text, _ := strings.Cut(string(out), "peak=")
	text, _, _ = strings.Cut(text, "\n")
	peak, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if peak < 100 || peak > 300 {
		t.Errorf("the heap came to %d MiB with 100 MiB alive", peak)
	}
}

var kept [][]byte

// churn has 100 MiB alive and makes 1 GiB of garbage beside it, with pauses in which
// a collection can end. It is the child's.
func churn(t *testing.T) {
	Pace(0)
	for range 100 {
		kept = append(kept, make([]byte, 1<<20))
	}
	peak := uint64(0)
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	for i := range 1 << 20 {
		kept[i%2] = make([]byte, 1<<10)
		if i%1024 == 0 {
			time.Sleep(100 * time.Microsecond)
			metrics.Read(sample)
			peak = max(peak, sample[0].Value.Uint64())
		}
	}
	t.Logf("peak=%d", peak>>20)
}
