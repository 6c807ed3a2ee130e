// Package output keeps what execs write, within bounds, for those who read it
// now or later. It knows nothing of processes, pipes or connections.
package output

import (
	"math"
	"slices"
	"sync"

	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/protocol"
)

// Limits of what is kept, in bytes.
const (
	Limit = 4 << 20   // of one output
	Tail  = 256 << 10 // of a terminal's
	Floor = 64 << 10  // what an output may always keep
)

// Kind says what an Output keeps and whether it tells two streams apart.
type Kind int

// The kinds.
const (
	Combined Kind = iota // one stream, of which the beginning and the end are kept
	Apart                // stdout and stderr, in the order in which they were read
	Screen               // one stream, of which the end is kept: a terminal's
)

// Output is what an exec wrote. It keeps the beginning and the end within a
// limit and counts what it dropped between them. Its writers reserve and
// commit under one lock of their own; any number of readers follow it.
//
// While a reader is attached nothing is dropped that it has not seen: the
// writer is told to wait, the pipe fills, and the command waits in its write.
// Without a reader, or after Flood, the middle is dropped instead and the
// command never waits.
type Output struct {
	// Room wakes a writer after Reserve refused.
	Room chan struct{}
	// Crowd gets a token when a reader comes or goes.
	Crowd chan struct{}

	budget *Budget
	kind   Kind

	mu      sync.Mutex
	limit   int64     // guarded by mu, as all below
	pieces  []piece   // by offset; between two of them bytes may be missing
	kept    int64     // bytes in pieces
	held    int64     // bytes of memory of pieces, taken from budget
	total   int64     // bytes ever written
	readers []*Reader // those attached
	flooded bool      // readers are no longer waited for
	ended   bool
}

// piece is a run of output. Its capacity is its memory.
type piece struct {
	offset int64
	data   []byte
	stderr marks // nil if no byte is of stderr
}

const (
	firstPiece = 1 << 10
	lastPiece  = 128 << 10

	fewestPieces = 3 // the first, the last and one whose memory can be used again
)

// New returns an empty output that keeps limit bytes, or the nearest number
// that this package allows. Zero is the most it allows.
func New(b *Budget, kind Kind, limit int64) *Output {
	most := int64(Limit)
	if kind == Screen {
		most = Tail
	}
	if limit <= 0 {
		limit = most
	}
	limit = min(max(limit, Floor), most)
	if protection.Off(protection.OutputBound) {
		limit = 1 << 62
	}
	return &Output{budget: b, kind: kind, limit: limit, Room: make(chan struct{}, 1), Crowd: make(chan struct{}, 1)}
}

// memory is what a piece takes: where streams are told apart, a bit for each
// byte comes on top, however often they change.
func (o *Output) memory(size int64) int64 {
	if o.kind == Apart {
		return size + (size+7)/8
	}
	return size
}

// Reserve returns space to write to, or nil if the writer must wait for Room. What
// Commit has not made part of the output before the next Reserve is lost.
func (o *Output) Reserve() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	buf := o.reserve()
	if buf != nil && o.kind == Apart {
		// Both writers may have waited for the one token that this one took,
		// perhaps to find that it has nothing to write.
		Wake(o.Room)
	}
	return buf
}

func (o *Output) reserve() []byte {
	if n := len(o.pieces); n > 0 {
		if last := o.pieces[n-1].data; len(last) < cap(last) {
			return last[len(last):cap(last)]
		}
	}
	size := int64(firstPiece)
	if n := len(o.pieces); n > 0 {
		// An eighth of the limit leaves enough pieces to reuse one of.
		size = min(lastPiece, o.limit/8, int64(cap(o.pieces[n-1].data))*2)
	}
	if o.mayGrow(o.memory(size)) {
		return o.addPiece(make([]byte, 0, size))
	}
	for size /= 2; size >= firstPiece; size /= 2 { // what is left of the floor needs no asking
		if n := o.memory(size); o.mustGrow(n) && o.mayGrow(n) {
			return o.addPiece(make([]byte, 0, size))
		}
	}
	i := o.victim()
	old := o.pieces[i]
	if o.waitedFor(old.offset + int64(len(old.data))) {
		return nil
	}
	// The memory moves from the middle to the end, so the budget is not asked:
	// another output could take in between what this one gives back.
	o.kept -= int64(len(old.data))
	o.pieces = slices.Delete(o.pieces, i, i+1)
	return o.addPiece(old.data[:0])
}

// addPiece makes data, which is empty, the piece at the end, and returns its space.
func (o *Output) addPiece(data []byte) []byte {
	o.pieces = append(o.pieces, piece{offset: o.total, data: data})
	return data[:cap(data)]
}

// mayGrow takes size bytes of memory if the limits allow it.
func (o *Output) mayGrow(size int64) bool {
	must := o.mustGrow(size)
	if !must && o.held+size > o.limit || !o.budget.take(size, must) {
		return false
	}
	o.held += size
	return true
}

// mustGrow reports whether size bytes are granted however full the budget is.
// So there are always pieces between the first and the last one.
func (o *Output) mustGrow(size int64) bool {
	return o.held+size <= Floor || len(o.pieces) < fewestPieces
}

// victim is the piece whose memory is used again: the oldest that does not
// belong to the first half, and not the last one; of a terminal the oldest.
func (o *Output) victim() int {
	if o.kind == Screen {
		return 0
	}
	var before int64
	for i, p := range o.pieces[:len(o.pieces)-1] {
		if before >= o.held/2 {
			return i
		}
		before += o.memory(int64(cap(p.data)))
	}
	return len(o.pieces) / 2
}

// waitedFor reports whether an attached reader has yet to see the byte before
// end.
func (o *Output) waitedFor(end int64) bool {
	if o.flooded {
		return false
	}
	for _, r := range o.readers {
		if r.offset < end {
			return true
		}
	}
	return false
}

// Commit makes the first n bytes of the reserved space part of the output.
func (o *Output) Commit(n int, stream protocol.Stream) {
	if n <= 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.wakeReaders()
	o.total += int64(n)
	if len(o.pieces) == 0 {
		return // discarded meanwhile
	}
	last := &o.pieces[len(o.pieces)-1]
	from := len(last.data)
	last.data = last.data[:from+n]
	if o.kind == Apart && stream == protocol.StreamStderr {
		if last.stderr == nil {
			last.stderr = make(marks, (cap(last.data)+7)/8)
		}
		last.stderr.set(from, from+n)
	}
	o.kept += int64(n)
}

// Flood lets the output go on without waiting for readers.
func (o *Output) Flood() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flooded = true
	Wake(o.Room)
}

// End says that nothing more will be written.
func (o *Output) End() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	o.wakeReaders()
}

// Discard frees everything that is kept. Readers see a gap up to the end.
func (o *Output) Discard() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.budget.give(o.held)
	o.pieces, o.kept, o.held = nil, 0, 0
}

// Counts returns how many bytes were written and how many are not kept.
func (o *Output) Counts() (total, dropped int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.total, o.total - o.kept
}

// Memory returns how much of the budget the output holds, in bytes.
func (o *Output) Memory() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.held
}

// Watched reports whether anybody is attached who reads, and does not only wait for the
// end.
func (o *Output) Watched() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.readers {
		if !r.file && !r.place && r.offset != math.MaxInt64 {
			return true
		}
	}
	return false
}

func (o *Output) wakeReaders() {
	for _, r := range o.readers {
		Wake(r.Wake)
	}
}

// Wake puts a token into a channel of capacity one.
func Wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Budget bounds the memory of all outputs together. An output's Floor is
// granted in any case, so that the sum is at most Max and a Floor for each.
type Budget struct {
	Max   int64       // bytes
	Evict func() bool // frees an output that can be spared, or returns false

	mu   sync.Mutex
	used int64 // guarded by mu
}

// take takes n bytes. What an output must have is granted in any case.
func (b *Budget) take(n int64, must bool) bool {
	for {
		b.mu.Lock()
		if b.used+n <= b.Max || must {
			b.used += n
			b.mu.Unlock()
			return true
		}
		b.mu.Unlock()
		if !b.Evict() {
			return false
		}
	}
}

func (b *Budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
}

// Used returns how many bytes are taken.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}
