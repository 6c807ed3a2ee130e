package ids_test

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/sandkasten/sandkasten/internal/runtime/linux/ids"
)

func open(t *testing.T, dir, owner string, mayTake bool) *ids.Pool {
	t.Helper()
	return openBeside(t, dir, owner, func(string, func(int) bool) bool { return !mayTake })
}

// openBeside is open beside sandboxes that are in use.
func openBeside(t *testing.T, dir, owner string, inUse ids.InUse) *ids.Pool {
	t.Helper()
	p, err := ids.Open(dir, owner, inUse)
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

// livingIn is the InUse of a host on which sandboxes live that have these blocks.
func livingIn(blocks ...ids.Base) ids.InUse {
	return func(_ string, of func(int) bool) bool {
		return slices.ContainsFunc(blocks, func(b ids.Base) bool { return of(int(b)) })
	}
}

func takeAll(t *testing.T, p *ids.Pool, n int) []ids.Base {
	t.Helper()
	all := make([]ids.Base, n)
	for i := range all {
		all[i] = take(t, p)
	}
	return all
}

func wantExhausted(t *testing.T, p *ids.Pool, want ids.ExhaustedError) {
	t.Helper()
	b, err := p.Take()
	got, ok := errors.AsType[*ids.ExhaustedError](err)
	if !ok || got.Used != want.Used || got.Own != want.Own || !maps.Equal(got.Others, want.Others) {
		t.Fatalf("took %#x: %+v; want %+v", b, err, want)
	}
}

func TestSpansGoBackAfterAPeak(t *testing.T) {
	dir := t.TempDir()
	a, b := open(t, dir, "a", false), open(t, dir, "b", false)
	peak := takeAll(t, a, ids.Blocks)
	wantExhausted(t, b, ids.ExhaustedError{Others: map[string]int{"a": ids.Spans}})

	left := peak[3]
	for _, block := range peak {
		if block != left {
			a.Free(block)
		}
	}
	rest(t, a)
	wantExhausted(t, b, ids.ExhaustedError{Others: map[string]int{"a": ids.Spans}}) // for a moment they are kept
	rest(t, a)
	takeAll(t, b, ids.Blocks-ids.SpanBlocks)
	wantExhausted(t, b, ids.ExhaustedError{Used: ids.Blocks - ids.SpanBlocks, Own: ids.Spans - 1, Others: map[string]int{"a": 1}})
	for range ids.SpanBlocks - 1 {
		if block := take(t, a); block == left {
			t.Fatal("the block of a living sandbox was handed out")
		}
	}
	wantExhausted(t, a, ids.ExhaustedError{Used: ids.SpanBlocks, Own: 1, Others: map[string]int{"b": ids.Spans - 1}})
}

func rest(t *testing.T, p *ids.Pool) {
	t.Helper()
	if err := p.Rest(); err != nil {
		t.Fatal(err)
	}
}

// What lives on after a peak is where the next sandboxes go, so that the other spans get empty.
func TestNewSandboxesGoToTheFirstSpans(t *testing.T) {
	p := open(t, t.TempDir(), "a", true)
	peak := takeAll(t, p, 3*ids.SpanBlocks)
	p.Free(peak[10])
	p.Free(peak[2*ids.SpanBlocks+10])
	if b := take(t, p); b != peak[10] {
		t.Errorf("took %#x of the last span, want %#x", b, peak[10])
	}
}

// A span that is used now and then is not given back and leased again each time, and a block
// of it rests even if it was.
func TestSpanInUseNowAndThenIsKept(t *testing.T) {
	dir := t.TempDir()
	a, b := open(t, dir, "a", false), open(t, dir, "b", false)
	var last ids.Base
	for range 5 {
		block := take(t, a)
		if block == last {
			t.Fatal("reused at once")
		}
		last = block
		a.Free(block)
		rest(t, a)
		if n, _ := ids.Span(int(take(t, b))); n == 0 {
			t.Fatal("it was given back")
		}
	}
	rest(t, a)
	if block := take(t, a); block == last {
		t.Error("reused at once after a lease")
	}
}

// A daemon that died in a peak leaves its mark on all spans. The next one keeps only those
// of sandboxes that it has taken up, and of those that nobody told it of.
func TestRestartGivesUpWhatItDoesNotNeed(t *testing.T) {
	dir := t.TempDir()
	before := open(t, dir, "a", false)
	peak := takeAll(t, before, 4*ids.SpanBlocks)
	if err := before.Close(); err != nil { // with all in use: as by kill -9
		t.Fatal(err)
	}
	held, untold := peak[5], peak[3*ids.SpanBlocks]
	living := livingIn(held, untold)
	a, b := openBeside(t, dir, "a", living), openBeside(t, dir, "b", func(string, func(int) bool) bool { return true })
	if err := errors.Join(a.Hold(held), a.Settle()); err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, block := range takeAll(t, b, 3*ids.SpanBlocks) {
		n, _ := ids.Span(int(block))
		seen[n] = true
	}
	if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, []int{1, 2, 4}) {
		t.Errorf("another installation has spans %v", got)
	}
}

// The daemon of an installation whose sandboxes live on does not run. What they do not need
// is for others.
func TestUnlockedSpansWithoutSandboxesAreTaken(t *testing.T) {
	dir := t.TempDir()
	a := open(t, dir, "a", false)
	peak := takeAll(t, a, 3*ids.SpanBlocks)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	b := openBeside(t, dir, "b", livingIn(peak[ids.SpanBlocks]))
	for i, block := range takeAll(t, b, 2*ids.SpanBlocks) {
		if n, _ := ids.Span(int(block)); n != 2*(i/ids.SpanBlocks) {
			t.Fatalf("block %d is of span %d", i, n)
		}
	}
}

func TestClosedPoolLeavesNoEmptySpan(t *testing.T) {
	dir := t.TempDir()
	a := open(t, dir, "a", false)
	a.Free(take(t, a))
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if n, _ := ids.Span(int(take(t, open(t, dir, "b", false)))); n != 0 {
		t.Errorf("the next daemon has span %d", n)
	}
}

func TestExhaustedErrorNamesWhoHasSpans(t *testing.T) {
	err := &ids.ExhaustedError{Used: 300, Own: 3, Others: map[string]int{"feed": 27, "abba": 1}}
	want := "no block of ids is free: this installation has 3 of 31 spans of 128 blocks, and uses 300 blocks; installation abba has 1; installation feed has 27"
	if err.Error() != want || err.Elsewhere() != 28 {
		t.Errorf("%q, %d", err, err.Elsewhere())
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
