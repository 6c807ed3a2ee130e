package ids_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/sandkasten/sandkasten/internal/runtime/linux/ids"
)

func open(t *testing.T, dir, owner string, mayTake bool) *ids.Pool {
	t.Helper()
	p, err := ids.Open(dir, owner, func(string) bool { return mayTake })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func take(t *testing.T, p *ids.Pool) ids.Base {
	t.Helper()
	b, err := p.Take()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBlocksNeverOverlap(t *testing.T) {
	dir := t.TempDir()
	pools := []*ids.Pool{open(t, dir, "a", true), open(t, dir, "b", true)} // two daemons
	var mu sync.Mutex
	seen := map[ids.Base]bool{}
	var wg sync.WaitGroup
	for i := range 600 { // several spans each
		wg.Go(func() {
			b, err := pools[i%2].Take()
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if seen[b] {
				t.Errorf("block %d twice", b)
			}
			seen[b] = true
			if int(b)%ids.Size != 0 || b.Runner() != int(b)+65535 || ids.Mapped != 65535 {
				t.Errorf("block %d, runner %d", b, b.Runner())
			}
		})
	}
	wg.Wait()
}

func TestFreedBlockRestsBeforeItIsUsedAgain(t *testing.T) {
	p := open(t, t.TempDir(), "a", true)
	b := take(t, p)
	p.Free(b)
	p.Free(b)
	if again := take(t, p); again == b {
		t.Fatal("reused at once")
	}
	seen := false
	for range 127 {
		seen = seen || take(t, p) == b
	}
	if !seen {
		t.Fatal("never used again")
	}
}

func TestRestartKeepsWhatIsHeld(t *testing.T) {
	dir := t.TempDir()
	p := open(t, dir, "a", true)
	held := take(t, p)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	p = open(t, dir, "a", true)
	if err := p.Hold(held); err != nil {
		t.Fatal(err)
	}
	for range 200 {
		if take(t, p) == held {
			t.Fatal("the block of a living sandbox was handed out")
		}
	}
}

func TestLeaseOfDeadDaemonIsTakenOnlyWithoutSandboxes(t *testing.T) {
	dir := t.TempDir()
	old := open(t, dir, "a", true)
	block := take(t, old)
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	if b := take(t, open(t, dir, "b", false)); b == block {
		t.Fatal("took a block of a daemon whose sandboxes live on")
	}
	if b := take(t, open(t, dir, "c", true)); b != block {
		t.Fatalf("the lease of a daemon that is gone for good was left unused: took %#x", b)
	}
}

// The directory of leases may be lost while sandboxes live on.
func TestHeldBlocksSurviveTheirLeases(t *testing.T) {
	p := open(t, t.TempDir(), "a", true)
	for i := range 128 {
		if err := p.Hold(ids.Base(0x70000000 + i*ids.Size)); err != nil {
			t.Fatal(err)
		}
	}
	if b := take(t, p); int(b) != 0x70000000+128*ids.Size {
		t.Errorf("took %#x", b)
	}
}

// Pools of one owner that come and go two at a time: none may lease what it does not need, or each
// pair leaves the other half of the next one without.
func TestPoolsThatComeAndGoNeedNoMoreSpans(t *testing.T) {
	dir := t.TempDir()
	for range 64 {
		pair := []*ids.Pool{open(t, dir, "a", true), open(t, dir, "a", true)}
		for _, p := range pair {
			take(t, p)
		}
		for _, p := range pair {
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestHoldRefusesWhatIsNoBlock(t *testing.T) {
	p := open(t, t.TempDir(), "a", true)
	for _, b := range []ids.Base{0, 1000, 0x70000001, 0x7FFFFFFF, -1} {
		if err := p.Hold(b); err == nil {
			t.Errorf("%#x was accepted", b)
		}
	}
}

func TestNoBlocksLeft(t *testing.T) {
	p := open(t, t.TempDir(), "a", true)
	for n := range ids.Blocks {
		if _, err := p.Take(); err != nil {
			t.Fatalf("only %d blocks: %v", n, err)
		}
	}
	if b, err := p.Take(); !errors.Is(err, ids.ErrExhausted) {
		t.Errorf("after all %d blocks: %d, %v", ids.Blocks, b, err)
	}
}
