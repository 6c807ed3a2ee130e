package linux

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/protocol"
)

// limits is a change of a Spec's limits.
func limits(change func(*runtime.Limits)) func(*runtime.Spec) {
	return func(s *runtime.Spec) { change(&s.Limits) }
}

func TestEscape_ForkBomb(t *testing.T) {
	wide := variant{spec: limits(func(l *runtime.Limits) { l.Pids = 1000 })}
	escapeTest{control: wide, attack: func(b *box) {
		if out := b.sh(`$PROBE threads 400 2>/dev/null | head -n1`); strings.HasPrefix(out, "made") {
			b.got("%s threads", out)
		}
	}}.run(t)
}

// While one shell is in a fork bomb the files and other shells work, and a
// timeout ends it.
func TestEscape_RunnerIsNotStarved(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.CheckHost(t)
	b := newBox(t, escapeTest{}, variant{})
	b.sh(`true`)
	done := make(chan protocol.Record)
	go func() {
		_, record, err := run(t, b.client, "bomb", `bomb() { bomb | bomb & }; bomb 2>/dev/null; sleep 999`, nil, 5*time.Second)
		if err != nil {
			t.Error(err)
		}
		done <- record
	}()
	peak := int64(0)
	for waiting := true; waiting; {
		stats, err := b.sandbox.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		peak = max(peak, stats.Pids)
		start := time.Now()
		if _, err := b.client.List(t.Context(), protocol.List{Path: ".", Max: 10}); err != nil {
			t.Fatalf("listing during the bomb: %v", err)
		}
		if took := time.Since(start); took > longTimeout/2 {
			t.Errorf("a listing took %s during the bomb", took)
		}
		select {
		case record := <-done:
			if record.Cause != protocol.CauseTimeout {
				t.Errorf("the bomb ended as %q", record.Cause)
			}
			waiting = false
		case <-time.After(50 * time.Millisecond):
		}
	}
	if peak < 64 || peak > 128+16 {
		t.Errorf("%d processes at the peak, with a limit of 128", peak)
	}
	b.guard()
}

func TestEscape_Memory(t *testing.T) {
	wide := variant{spec: limits(func(l *runtime.Limits) { l.MemoryMB = 1024 })}
	for name, command := range map[string]string{
		"program": `$PROBE alloc 400`,
		"shm":     `head -c 400M /dev/zero >/dev/shm/f && echo held; rm -f /dev/shm/f`,
		"memfd":   `python3 -c 'import os; f = os.memfd_create("x"); [os.write(f, bytes(1 << 20)) for i in range(400)]; print("he" + "ld")'`,
	} {
		t.Run(name, func(t *testing.T) {
			escapeTest{control: wide, attack: func(b *box) {
				out, record := b.exec(command, nil, longTimeout)
				if strings.Contains(out, "held") {
					b.got("400 MiB of 256: %s", out)
				}
				if name == "program" && !strings.Contains(out, "held") && record.ExitCode == 0 {
					b.t.Errorf("the program neither held the memory nor failed: %q", out)
				}
			}}.run(t)
		})
	}
}

func TestEscape_Disk(t *testing.T) {
	wide := variant{spec: limits(func(l *runtime.Limits) { l.DiskMB = 1024 })}
	for _, place := range []string{"/workspace", "/var", "/tmp"} {
		t.Run(place, func(t *testing.T) {
			escapeTest{control: wide, attack: func(b *box) {
				out := b.sh(`cd ` + place + `; fallocate -l 400M f 2>&1; stat -c %s f; rm -f f; dd if=/dev/zero of=f bs=1M count=400 2>&1; du -m f; rm -f f; cd /workspace`)
				if !strings.Contains(out, "No space left on device") {
					b.got("400 MiB of 256: %s", out)
				}
			}}.run(t)
		})
	}
}

func TestEscape_Inodes(t *testing.T) {
	wide := variant{spec: limits(func(l *runtime.Limits) { l.DiskMB = 4096 })}
	escapeTest{control: wide, attack: func(b *box) {
		var result struct {
			Made  int
			Error string
		}
		b.decode(`mkdir many; $PROBE flood files 100000 many`, nil, &result)
		if result.Error != "ENOSPC" {
			b.got("%d files: %s", result.Made, result.Error)
		}
	}}.run(t)
}

func TestEscape_Descriptors(t *testing.T) {
	// What it would look like: there is no switch for the limit of open files.
	const unlimited = `probe() { echo '{"made":100000,"error":"ok"}'; }; PROBE=probe`
	escapeTest{control: variant{before: unlimited}, attack: func(b *box) {
		for _, what := range []string{"fds", "inotify", "eventfd", "epoll", "pairs"} {
			var result struct {
				Made  int
				Error string
			}
			b.decode(`$PROBE flood `+what+` 100000`, nil, &result)
			if result.Made >= 100000 {
				b.got("%d %s", result.Made, what)
			}
		}
	}}.run(t)
}

// The host may have as many open files as its memory holds, and each is charged to the
// memory of its sandbox: so no number of sandboxes within their limits takes all.
func TestEscape_FileTable(t *testing.T) {
	escapeTest{control: without("file-table"), attack: func(b *box) {
		before, err := os.ReadFile(fileMaxPath)
		if err != nil {
			b.t.Fatal(err)
		}
		b.t.Cleanup(func() {
			if err := writeProc(fileMaxPath, strings.TrimSpace(string(before))); err != nil {
				b.t.Error(err)
			}
		})
		enough, err := fullFileTable()
		if err != nil {
			b.t.Fatal(err)
		}
		// Less than the kernel's own default, which is a file for ten KiB.
		if err := writeProc(fileMaxPath, fmt.Sprint(enough/100)); err != nil {
			b.t.Fatal(err)
		}
		p, err := b.d.prepare(b.t.Context())
		if err != nil {
			b.t.Fatal(err)
		}
		if err := p.discard(); err != nil {
			b.t.Error(err)
		}
		after, err := os.ReadFile(fileMaxPath)
		if err != nil {
			b.t.Fatal(err)
		}
		if now, err := strconv.ParseUint(strings.TrimSpace(string(after)), 10, 64); err != nil || now < enough {
			b.got("%d open files take the host's memory, and it may have %d, %v", enough, now, err)
		}
		if charged := chargedForFiles(b, 8*16000); charged < 8*16000*chargedPerFile {
			b.got("%d bytes are charged for %d files", charged, 8*16000)
		}
	}}.run(t)
}

// chargedForFiles opens n files and returns by how much that raises the sandbox's
// memory.
func chargedForFiles(b *box, n int) int64 {
	b.t.Helper()
	memory := func() int64 {
		stats, err := b.sandbox.Stats(b.t.Context())
		if err != nil {
			b.t.Fatal(err)
		}
		return stats.MemoryBytes
	}
	b.sh(fmt.Sprintf(`rm -f /tmp/go /tmp/opened; cat >/tmp/open.py <<'END'
import os, time
for i in range(8):
	if os.fork() == 0:
		while not os.path.exists("/tmp/go"): time.sleep(0.05)
		files = [os.open("/dev/null", os.O_RDONLY) for i in range(%d // 8)]
		open("/tmp/opened", "a").write("x")
		time.sleep(60)
		os._exit(0)
END
(python3 /tmp/open.py &) ; sleep 1`, n))
	before := memory()
	b.sh(`touch /tmp/go; until [ $(stat -c %s /tmp/opened 2>/dev/null || echo 0) = 8 ]; do sleep 0.1; done`)
	after := memory()
	b.sh(`pkill -f open.py`)
	return after - before
}

func TestEscape_Terminals(t *testing.T) {
	escapeTest{control: variant{host: true}, attack: func(b *box) {
		var result struct {
			Made  int
			Error string
		}
		b.decode(`$PROBE flood ptys 100`, nil, &result)
		if result.Made > 64 {
			b.got("%d terminals", result.Made)
		}
	}}.run(t)
}

// The kernel counts some things per user. Since each sandbox has users of its
// own, one that has taken all of its share leaves the others theirs.
func TestEscape_PerUserLimits(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.CheckHost(t)
	b := newBox(t, escapeTest{}, variant{})
	other, err := b.d.Open(t.Context(), neighbour)
	if err != nil {
		t.Fatal(err)
	}
	theirs := b.dialler(other.(*sandbox))
	b.sh(`(while :; do $PROBE flood inotify 100000; $PROBE flood pairs 100000; done) >/dev/null 2>&1 &`)
	for i := range 20 {
		out, _, err := run(t, theirs, fmt.Sprint("use", i), `$PROBE flood inotify 100; $PROBE flood pairs 100; true | cat`, nil, longTimeout)
		if err != nil || strings.Count(out, `"made":100`) != 2 {
			t.Fatalf("the neighbour has %q, %v", out, err)
		}
	}
	b.sh(`kill $(jobs -p)`)
	b.guard()
}

// Output without end costs neither the runner's memory nor that of the daemon.
func TestEscape_OutputFlood(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.CheckHost(t)
	b := newBox(t, escapeTest{}, variant{})
	for i, command := range []string{`yes`, `cat /dev/urandom >&2`, `head -c 300M /dev/zero`} {
		ctx, cancel := context.WithTimeout(t.Context(), longTimeout)
		_, err := b.client.Exec(ctx, protocol.Exec{ID: fmt.Sprint("flood", i), TimeoutMS: 2000, OutputLimit: 1 << 20}, command, nil, io.Discard)
		cancel()
		if err != nil {
			t.Errorf("%s: %v", command, err)
		}
	}
	if rss := residentKB(t, b.sandbox.state.Process.PID); rss > 64<<10 {
		t.Errorf("the runner holds %d KB", rss)
	}
	b.guard()
}

func residentKB(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	var kb int
	if _, err := fmt.Sscan(rest, &kb); err != nil {
		t.Fatal(err)
	}
	return kb
}
