package output

import (
	"slices"
	"time"

	"github.com/sandkasten/sandkasten/internal/guard"
	"github.com/sandkasten/sandkasten/protocol"
)

// Reader follows an Output. It is used by one goroutine.
type Reader struct {
	// Wake gets a token when there may be something new.
	Wake chan struct{}

	o      *Output
	offset int64 // of the next byte to read; guarded by o.mu
	file   bool  // a Spill's, so not somebody's
	place  bool  // keeps the place of one that is still to come
}

// Chunk is a part of an output, all of one stream.
type Chunk struct {
	Offset int64 // of the first byte
	Bytes  int
	Stream protocol.Stream
}

// Attach returns a reader that starts at offset, which may be yet to come. Its
// Detach must be called.
func (o *Output) Attach(offset int64) *Reader {
	return o.attach(&Reader{offset: offset})
}

func (o *Output) attach(r *Reader) *Reader {
	o.mu.Lock()
	defer o.mu.Unlock()
	r.o, r.Wake = o, make(chan struct{}, 1)
	if r.offset == 0 && !r.file {
		o.readers = slices.DeleteFunc(o.readers, func(other *Reader) bool { return other.place })
	}
	o.readers = append(o.readers, r)
	Wake(o.Crowd)
	return r
}

// Await keeps everything for the next reader from the beginning on, for so long:
// without room the writer waits.
func (o *Output) Await(d time.Duration) {
	r := o.attach(&Reader{place: true})
	guard.After(d, r.Detach, func(error) {})
}

// Detach ends the reader: from now on it holds nobody up.
func (r *Reader) Detach() {
	r.o.mu.Lock()
	defer r.o.mu.Unlock()
	for i, other := range r.o.readers {
		if other == r {
			r.o.readers = append(r.o.readers[:i], r.o.readers[i+1:]...)
			break
		}
	}
	Wake(r.o.Room)
	Wake(r.o.Crowd)
}

// Read copies bytes to buf and moves on. Bytes that are not kept any more are
// skipped. Without any bytes, ended says that no more can come.
func (r *Reader) Read(buf []byte) (c Chunk, ended bool) {
	r.o.mu.Lock()
	defer r.o.mu.Unlock()
	for _, p := range r.o.pieces {
		if p.offset+int64(len(p.data)) <= r.offset {
			continue
		}
		c.Offset = max(r.offset, p.offset)
		from := int(c.Offset - p.offset)
		to := min(len(p.data), from+len(buf))
		c.Stream, to = p.stream(r.o.kind, from, to)
		c.Bytes = copy(buf, p.data[from:to])
		r.offset = c.Offset + int64(c.Bytes)
		Wake(r.o.Room)
		return c, false
	}
	return Chunk{Offset: r.offset}, r.o.ended
}

// stream returns whose the byte at from is, and the end of its run up to to.
func (p piece) stream(kind Kind, from, to int) (protocol.Stream, int) {
	switch {
	case kind != Apart:
		return protocol.StreamOutput, to
	case p.stderr == nil:
		return protocol.StreamStdout, to
	case p.stderr.get(from):
		return protocol.StreamStderr, p.stderr.run(from, to)
	default:
		return protocol.StreamStdout, p.stderr.run(from, to)
	}
}

// Settle reports whether there is more to read, or the end. It waits for that for
// at most d.
func (r *Reader) Settle(d time.Duration) bool {
	if d <= 0 || r.Ready() {
		return r.Ready()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-r.Wake:
			if r.Ready() {
				return true
			}
		case <-timer.C:
			return false
		}
	}
}

// Ready reports whether something was written behind the reader's position, or
// nothing will be.
func (r *Reader) Ready() bool {
	r.o.mu.Lock()
	defer r.o.mu.Unlock()
	return r.o.total > r.offset || r.o.ended
}
