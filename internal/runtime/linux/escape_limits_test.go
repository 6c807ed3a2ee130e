package linux

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// L02: the host may have as many open files as its memory holds, and each is charged to the
// memory of its sandbox: so no number of sandboxes within their limits takes all.
func TestL02_FileTable(t *testing.T) {
	b := newBox(t, nil)
	before, err := os.ReadFile(fileMaxPath)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := writeProc(fileMaxPath, strings.TrimSpace(string(before))); err != nil {
			t.Error(err)
		}
	})
	enough, err := fullFileTable()
	if err != nil {
		t.Fatal(err)
	}
	// Less than the kernel's own default, which is a file for ten KiB.
	if err := writeProc(fileMaxPath, fmt.Sprint(enough/100)); err != nil {
		t.Fatal(err)
	}
	p, err := b.d.prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.discard(); err != nil {
		t.Error(err)
	}
	after, err := os.ReadFile(fileMaxPath)
	if err != nil {
		t.Fatal(err)
	}
	if now, err := strconv.ParseUint(strings.TrimSpace(string(after)), 10, 64); err != nil || now < enough {
		t.Errorf("%d open files take the host's memory, and it may have %d, %v", enough, now, err)
	}
	if charged := chargedForFiles(b, 8*16000); charged < 8*16000*chargedPerFile {
		t.Errorf("%d bytes are charged for %d files", charged, 8*16000)
	}
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
