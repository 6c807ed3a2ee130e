package ratios

import (
	"maps"
	"os"
	"testing"
)

func TestParseCalls(t *testing.T) {
	t.Parallel()
	// As strace prints it, with the calls of the scheduler and reads that found nothing.
	const text = `    calls    errors syscall
--------- --------- ----------------
     1700        50 read
      900           write
      300        12 futex
        7         7 newfstatat
        9         9 recvfrom
--------- --------- ----------------
     2916        78 total
`
	got, err := parseCalls([]byte(text))
	want := map[string]int{"read": 1650, "write": 900, "newfstatat": 7, "recvfrom": 0}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("counted %v, %v, want %v", got, err, want)
	}
	if got, err := parseCalls([]byte("strace: Operation not permitted\n")); err == nil {
		t.Errorf("no table is %v", got)
	}
}

func TestParseAllocations(t *testing.T) {
	t.Parallel()
	if got, err := parseAllocations([]byte("# Alloc = 5\n# Mallocs = 1234\n# Frees = 7\n")); got != 1234 || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := parseAllocations([]byte("heap profile: 0\n")); err == nil {
		t.Errorf("nothing counted is %v", got)
	}
}

// The clock of a process grows with what the process does.
func TestProcessorTime(t *testing.T) {
	t.Parallel()
	before, err := processorTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for i := range 10_000_000 {
		sum += i
	}
	after, err := processorTime(os.Getpid())
	if err != nil || after <= before || sum == 0 {
		t.Errorf("from %v to %v, %v", before, after, err)
	}
}
