package proc

import (
	"os"
	osexec "os/exec"
	"strconv"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	fields := func(state string, threads int) string {
		return " " + state + " 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 " + strconv.Itoa(threads) + " 0 123456 1 2 3\n"
	}
	for _, tc := range []struct {
		line string
		want Process
		ok   bool
	}{
		{"42 (bash)" + fields("S", 1), Process{PID: 42, Parent: 7, Session: 9, Name: "bash", Alive: true, Start: 123456, CPU: 260 * time.Millisecond, Memory: int64(2 * os.Getpagesize())}, true},
		{"42 (a) R 1 1 (b\n) c)" + fields("T", 1), Process{PID: 42, Parent: 7, Session: 9, Name: "a) R 1 1 (b\n) c", Alive: true, Stopped: true, Start: 123456, CPU: 260 * time.Millisecond, Memory: int64(2 * os.Getpagesize())}, true},
		{"42 (busy)" + fields("R", 1), Process{PID: 42, Parent: 7, Session: 9, Name: "busy", Alive: true, Runnable: true, Start: 123456, CPU: 260 * time.Millisecond, Memory: int64(2 * os.Getpagesize())}, true},
		{"42 ()" + fields("Z", 1), Process{PID: 42, Parent: 7, Session: 9, Start: 123456, CPU: 260 * time.Millisecond, Memory: int64(2 * os.Getpagesize())}, true},
		{"42 (threads)" + fields("Z", 2), Process{PID: 42, Parent: 7, Session: 9, Name: "threads", Alive: true, Start: 123456, CPU: 260 * time.Millisecond, Memory: int64(2 * os.Getpagesize())}, true},
		{"42 (bash) S 1 2", Process{}, false},
		{"42 bash S", Process{}, false},
		{"", Process{}, false},
		{"x (bash)" + fields("S", 1), Process{}, false},
	} {
		got, ok := parseStat([]byte(tc.line))
		if ok != tc.ok || ok && got != tc.want {
			t.Errorf("%q: %+v, %v; want %+v, %v", tc.line, got, ok, tc.want, tc.ok)
		}
	}
}

func TestProcfsOrdersProcesses(t *testing.T) {
	p := Open("/proc")
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	for range 20 {
		first := osexec.CommandContext(t.Context(), "sleep", "100")
		if err := first.Start(); err != nil {
			t.Fatal(err)
		}
		between := p.Now()
		second := osexec.CommandContext(t.Context(), "sleep", "100")
		if err := second.Start(); err != nil {
			t.Fatal(err)
		}
		a, ok1 := p.Read(strconv.Itoa(first.Process.Pid))
		b, ok2 := p.Read(strconv.Itoa(second.Process.Pid))
		if !ok1 || !ok2 || a.After(between) || !b.After(between) || a.Parent != os.Getpid() {
			t.Errorf("%+v is not before, or %+v not after %+v", a, b, between)
		}
		for _, c := range []*osexec.Cmd{first, second} {
			if err := c.Process.Kill(); err != nil {
				t.Error(err)
			}
			if c.Wait() == nil {
				t.Error("it ended well")
			}
		}
	}
}
