package procview

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestMeminfo(t *testing.T) {
	text := Files(Facts{Memory: Memory{Limit: 512 << 20, Usage: 200 << 20, File: 100 << 20, ActiveFile: 60 << 20, InactiveFile: 30 << 20, Shmem: 10 << 20}})[Meminfo]
	for _, want := range []string{
		"MemTotal:         524288 kB\n", "MemFree:          319488 kB\n", "MemAvailable:     411648 kB\n", "Cached:           102400 kB\n", "SwapTotal:             0 kB\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	full := Files(Facts{Memory: Memory{Limit: 1 << 20, Usage: 2 << 20}})[Meminfo]
	if !strings.Contains(full, "MemFree:               0 kB\n") {
		t.Errorf("over the limit:\n%s", full)
	}
}

func TestStat(t *testing.T) {
	text := Files(Facts{CPUs: 2, User: 3 * time.Second, System: time.Second, Age: 10 * time.Second, BootTime: 1700000000, Tasks: 7})[Stat]
	const want = "cpu  300 0 100 1600 0 0 0 0 0 0\ncpu0 150 0 50 800 0 0 0 0 0 0\ncpu1 150 0 50 800 0 0 0 0 0 0\n" +
		"intr 0\nctxt 0\nbtime 1700000000\nprocesses 7\nprocs_running 1\nprocs_blocked 0\nsoftirq 0\n"
	if text != want {
		t.Errorf("got\n%swant\n%s", text, want)
	}
}

func TestFirstCPUs(t *testing.T) {
	host := "processor\t: 0\nmodel\t: x\n\nprocessor\t: 1\nmodel\t: x\n\nprocessor\t: 2\nmodel\t: x\n\n"
	for n, want := range map[int]int{1: 1, 2: 2, 3: 3, 9: 3} {
		text := FirstCPUs(host, n)
		if got := strings.Count(text, "processor"); got != want || !strings.HasPrefix(host, text) {
			t.Errorf("%d of 3: %q", n, text)
		}
	}
}

func TestLoad(t *testing.T) {
	var l Load
	if !l.Quiet() {
		t.Error("a new one is not quiet")
	}
	for range 120 {
		l = l.Add(2, time.Second)
	}
	if got := fmt.Sprintf("%.1f %.1f", l[0], l[1]); got != "1.7 0.7" {
		t.Errorf("after two minutes of two cores: %s", got)
	}
	if l = l.Add(0, 3*time.Hour); !l.Quiet() {
		t.Errorf("hours later: %v", l)
	}
}
