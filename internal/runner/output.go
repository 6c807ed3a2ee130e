package runner

import (
	"sync"
	"time"
)

// output is what an exec wrote. It keeps the beginning and the end within a
// limit and counts what it dropped between them. One writer, the pump of a
// pipe, fills it; any number of readers follow it.
//
// While a reader is attached nothing is dropped that it has not seen: the
// writer is told to wait, the pipe fills, and the command waits in its write.
// Without a reader, or after flood, the middle is dropped instead and the
// command never waits.
type output struct {
	budget *budget
	room   chan struct{} // wakes the writer after reserve refused

	mu      sync.Mutex
	limit   int64     // guarded by mu, as all below
	pieces  []piece   // by offset; between two of them bytes may be missing
	kept    int64     // bytes in pieces
	held    int64     // bytes of memory of pieces, taken from budget
	total   int64     // bytes ever written
	readers []*reader // those attached
	flooded bool      // readers are no longer waited for
	ended   bool
}

// piece is a run of output. Its capacity is its memory.
type piece struct {
	offset int64
	data   []byte
}

const (
	firstPiece = 1 << 10
	lastPiece  = 32 << 10
)

// newOutput returns an empty output that keeps limit bytes, or the nearest
// number that this package allows. Zero is the most it allows.
func newOutput(b *budget, limit int64) *output {
	if limit <= 0 {
		limit = outputLimit
	}
	limit = min(max(limit, outputFloor), outputLimit)
	return &output{budget: b, limit: limit, room: make(chan struct{}, 1)}
}

// reserve returns space to write to, or nil if the writer must wait for room.
// commit must follow before the next reserve.
func (o *output) reserve() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := len(o.pieces); n > 0 {
		if last := o.pieces[n-1].data; len(last) < cap(last) {
			return last[len(last):cap(last)]
		}
	}
	size := int64(firstPiece)
	if n := len(o.pieces); n > 0 {
		// An eighth of the limit leaves enough pieces to drop one of.
		size = min(lastPiece, o.limit/8, int64(cap(o.pieces[n-1].data))*2)
	}
	for !o.mayGrow(size) {
		i := o.middle()
		if o.waitedFor(o.pieces[i].offset + int64(len(o.pieces[i].data))) {
			return nil
		}
		o.drop(i)
	}
	o.held += size
	o.pieces = append(o.pieces, piece{offset: o.total, data: make([]byte, 0, size)})
	return o.pieces[len(o.pieces)-1].data[:size]
}

// mayGrow takes size bytes of memory if the limits allow it.
func (o *output) mayGrow(size int64) bool {
	if o.held+size > o.limit {
		return false
	}
	return o.budget.take(size, o.held+size <= outputFloor)
}

// middle is the oldest piece that does not belong to the first half.
func (o *output) middle() int {
	var before int64
	for i, p := range o.pieces {
		if before >= o.held/2 {
			return i
		}
		before += int64(cap(p.data))
	}
	return len(o.pieces) / 2
}

// waitedFor reports whether an attached reader has yet to see the byte before
// end.
func (o *output) waitedFor(end int64) bool {
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

func (o *output) drop(i int) {
	p := o.pieces[i]
	o.kept -= int64(len(p.data))
	o.held -= int64(cap(p.data))
	o.budget.give(int64(cap(p.data)))
	o.pieces = append(o.pieces[:i], o.pieces[i+1:]...)
}

// commit makes the first n bytes of the reserved space part of the output.
func (o *output) commit(n int) {
	if n <= 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	last := &o.pieces[len(o.pieces)-1]
	last.data = last.data[:len(last.data)+n]
	o.kept += int64(n)
	o.total += int64(n)
	o.wakeReaders()
}

// flood lets the output go on without waiting for readers.
func (o *output) flood() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flooded = true
	wake(o.room)
}

// end says that nothing more will be written.
func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	o.wakeReaders()
}

// discard frees everything that is kept. Readers see a gap up to the end.
func (o *output) discard() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.pieces) > 0 {
		o.drop(len(o.pieces) - 1)
	}
}

// counts returns how many bytes were written and how many are not kept.
func (o *output) counts() (total, dropped int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.total, o.total - o.kept
}

// memory returns how much of the budget the output holds.
func (o *output) memory() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.held
}

func (o *output) wakeReaders() {
	for _, r := range o.readers {
		wake(r.wake)
	}
}

// wake puts a token into a channel of capacity one.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// reader follows an output. It is used by one goroutine.
type reader struct {
	o      *output
	offset int64         // of the next byte to read; guarded by o.mu
	wake   chan struct{} // there may be something new
}

// attach returns a reader that starts at offset, which may be yet to come. Its detach must be called.
func (o *output) attach(offset int64) *reader {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := &reader{o: o, offset: offset, wake: make(chan struct{}, 1)}
	o.readers = append(o.readers, r)
	return r
}

// detach ends the reader: from now on it holds nobody up.
func (r *reader) detach() {
	r.o.mu.Lock()
	defer r.o.mu.Unlock()
	for i, other := range r.o.readers {
		if other == r {
			r.o.readers = append(r.o.readers[:i], r.o.readers[i+1:]...)
			break
		}
	}
	wake(r.o.room)
}

// read copies bytes to buf and moves on. The offset is that of the first byte:
// bytes that are not kept any more are skipped. With n == 0, ended says whether
// more can come.
func (r *reader) read(buf []byte) (offset int64, n int, ended bool) {
	r.o.mu.Lock()
	defer r.o.mu.Unlock()
	for _, p := range r.o.pieces {
		if p.offset+int64(len(p.data)) <= r.offset {
			continue
		}
		from := max(r.offset, p.offset)
		n = copy(buf, p.data[from-p.offset:])
		r.offset = from + int64(n)
		wake(r.o.room)
		return from, n, false
	}
	return r.offset, 0, r.o.ended
}

// settleTime is how long the first bytes of an output wait for company, so
// that a short command's output and end travel together.
const settleTime = time.Millisecond

// settle reports whether there is more to read, or the end. It waits a moment
// for that.
func (r *reader) settle() bool {
	if r.ready() {
		return true
	}
	timer := time.NewTimer(settleTime)
	defer timer.Stop()
	for {
		select {
		case <-r.wake:
			if r.ready() {
				return true
			}
		case <-timer.C:
			return false
		}
	}
}

func (r *reader) ready() bool {
	r.o.mu.Lock()
	defer r.o.mu.Unlock()
	return r.o.total > r.offset || r.o.ended
}

// budget bounds the memory of all outputs together.
type budget struct {
	mu    sync.Mutex
	used  int64       // guarded by mu
	evict func() bool // frees the output of an exec that has ended
	max   int64
}

// take takes n bytes. What an output must have is granted in any case.
func (b *budget) take(n int64, must bool) bool {
	for {
		b.mu.Lock()
		if b.used+n <= b.max || must {
			b.used += n
			b.mu.Unlock()
			return true
		}
		b.mu.Unlock()
		if !b.evict() {
			return false
		}
	}
}

func (b *budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
}
