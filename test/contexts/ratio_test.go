package contexts

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

// byHand prints the milliseconds of a round trip of Jupyter's own client, the fastest
// tenth of many.
const byHand = `
import sys, time
from jupyter_client.manager import KernelManager
m = KernelManager(kernel_name="python3", transport="ipc")
m.start_kernel()
c = m.blocking_client()
c.start_channels()
c.wait_for_ready()
def trip():
    begin = time.perf_counter()
    c.execute_interactive("1 + 1", output_hook=lambda m: None, allow_stdin=False)
    return time.perf_counter() - begin
for n in range(10): trip()
for line in sys.stdin:
    print(sorted(trip() for n in range(60))[6] * 1000, flush=True)
c.stop_channels()
m.shutdown_kernel(now=True)
`

// TestLaterRunsCostLittleMore compares a run by the API with the round trip of Jupyter's
// own client in the same sandbox. What else the machine does slows both, but not at the
// same moments: the fastest of some rounds count. One and a half times is the goal; on a
// busy host with two cores it was 1.57.
func TestLaterRunsCostLittleMore(t *testing.T) {
	testenv.NeedsRoot(t)
	const most, rounds = 1.8, 6
	s := newSandbox(t)
	context, err := s.CreateContext(t.Context(), "python", nil)
	if err != nil {
		t.Fatal(err)
	}
	s.upload(writeFile(t, byHand), "/workspace/by-hand.py")
	var ours, theirs []float64
	for range rounds {
		trips := make([]float64, 60)
		for i := range trips {
			begin := time.Now()
			if _, err := context.Run(t.Context(), "1 + 1", nil); err != nil {
				t.Fatal(err)
			}
			trips[i] = time.Since(begin).Seconds() * 1000
		}
		slices.Sort(trips)
		hand, err := strconv.ParseFloat(strings.TrimSpace(s.exec("echo | python3 by-hand.py 2>/dev/null")), 64)
		if err != nil {
			t.Fatal(err)
		}
		ours, theirs = append(ours, trips[6]), append(theirs, hand)
		t.Logf("%.2f ms by the API, %.2f ms by hand", trips[6], hand)
	}
	if ratio := slices.Min(ours) / slices.Min(theirs); ratio > most {
		t.Errorf("a run takes %.2f times the client's round trip, at most %.1f", ratio, most)
	}
}
