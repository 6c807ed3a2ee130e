package output

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/sandkasten/sandkasten/protocol"
)

// model is everything that was ever written to an output.
type model struct {
	text []byte
	errs []bool // of stderr
}

// write adds random bytes, as much of them as the output takes now.
func (m *model) write(o *Output, kind Kind) {
	stream := protocol.StreamOutput
	if kind == Apart {
		stream = []protocol.Stream{protocol.StreamStdout, protocol.StreamStderr}[rand.IntN(2)]
	}
	buf := o.Reserve()
	if len(buf) == 0 {
		return
	}
	n := rand.IntN(len(buf)) + 1
	if rand.IntN(2) == 0 {
		n = min(n, 1+rand.IntN(9)) // streams that alternate fast
	}
	for i := range n {
		buf[i] = byte(rand.Uint32())
		m.errs = append(m.errs, stream == protocol.StreamStderr)
	}
	m.text = append(m.text, buf[:n]...)
	o.Commit(n, stream)
}

// follower is a reader and what it may expect.
type follower struct {
	*Reader
	next     int64
	attached bool // from the beginning, and waited for ever since: it misses nothing
}

// read reads once and compares with what was written.
func (f *follower) read(t *testing.T, m *model, kind Kind) {
	t.Helper()
	buf := make([]byte, 1+rand.IntN(40_000))
	c, _ := f.Read(buf)
	if c.Bytes == 0 {
		return
	}
	end := c.Offset + int64(c.Bytes)
	switch {
	case c.Offset < f.next || end > int64(len(m.text)):
		t.Fatalf("bytes %d to %d of %d, after %d", c.Offset, end, len(m.text), f.next)
	case f.attached && c.Offset != f.next:
		t.Fatalf("bytes %d to %d were dropped before they were read", f.next, c.Offset)
	case !bytes.Equal(buf[:c.Bytes], m.text[c.Offset:end]):
		t.Fatalf("other bytes at %d than were written", c.Offset)
	}
	if kind == Apart {
		for i := c.Offset; i < end; i++ {
			if m.errs[i] != (c.Stream == protocol.StreamStderr) {
				t.Fatalf("byte %d is told to be of %s", i, c.Stream)
			}
		}
	}
	f.next = end
}

// Whatever is written, dropped and read in whatever order: offsets never
// repeat, bytes are where their offset says and of the stream they were
// written to, and a reader that was there from the start misses nothing.
func TestReadersSeeWhatWasWritten(t *testing.T) {
	for range 60 {
		kind := Kind(rand.IntN(3))
		b := testBudget(1 << 40)
		o := New(b, kind, Floor+rand.Int64N(Floor))
		m := &model{}
		first := &follower{Reader: o.Attach(0), attached: true}
		readers := []*follower{first}
		for range 1500 {
			switch k := rand.IntN(20); {
			case k == 0 && len(readers) < 5:
				at := rand.Int64N(int64(len(m.text)) + 100)
				readers = append(readers, &follower{Reader: o.Attach(at), next: at})
			case k == 1 && len(readers) > 1:
				readers[len(readers)-1].Detach()
				readers = readers[:len(readers)-1]
			case k < 10:
				readers[rand.IntN(len(readers))].read(t, m, kind)
			default:
				m.write(o, kind)
			}
			if o.Memory() > o.limit || b.Used() != o.Memory() {
				t.Fatalf("%d bytes held, %d taken, of %d", o.Memory(), b.Used(), o.limit)
			}
		}
		for _, r := range readers {
			r.Detach()
		}
		for len(m.text) < 600_000 { // with nobody there it is never refused
			before := len(m.text)
			if m.write(o, kind); len(m.text) == before {
				t.Fatal("the writer waits for nobody")
			}
		}
		o.End()
		wantReplay(t, o, m, kind)
	}
}

// wantReplay checks what somebody gets who comes after the end.
func wantReplay(t *testing.T, o *Output, m *model, kind Kind) {
	t.Helper()
	late := &follower{Reader: o.Attach(0)}
	defer late.Detach()
	var got int64
	for late.Ready() && late.next < int64(len(m.text)) {
		before := late.next
		if late.read(t, m, kind); late.next == before {
			break
		}
		got++
	}
	total, dropped := o.Counts()
	if late.next != total || total != int64(len(m.text)) || got == 0 {
		t.Fatalf("the replay ends at %d of %d", late.next, total)
	}
	if kind == Screen && total-dropped < o.limit/2 {
		t.Fatalf("%d of %d bytes dropped from a screen of %d", dropped, total, o.limit)
	}
}

// Streams that alternate byte by byte take no more memory than others.
func TestAlternatingStreamsAreBounded(t *testing.T) {
	b := testBudget(1 << 20)
	o := New(b, Apart, 1<<20)
	streams := []protocol.Stream{protocol.StreamStdout, protocol.StreamStderr}
	for i := range 3 << 20 {
		o.Reserve()[0] = byte(i)
		o.Commit(1, streams[i%2])
	}
	total, dropped := o.Counts()
	if kept := total - dropped; kept < 800<<10 || b.Used() > 1<<20 {
		t.Errorf("%d bytes kept in %d bytes of memory", kept, b.Used())
	}
	r := o.Attach(0)
	defer r.Detach()
	buf := make([]byte, 100)
	for i := range 10 {
		if c, _ := r.Read(buf); c.Bytes != 1 || c.Offset != int64(i) || c.Stream != streams[i%2] {
			t.Fatalf("%+v", c)
		}
	}
}

func TestMarks(t *testing.T) {
	for range 200 {
		m, want := make(marks, 32), make([]bool, 256)
		for range rand.IntN(6) {
			from := rand.IntN(256)
			to := from + rand.IntN(256-from)
			m.set(from, to)
			for i := from; i < to; i++ {
				want[i] = true
			}
		}
		for i := 0; i < 256; {
			end := m.run(i, 256)
			for j := i; j < end; j++ {
				if want[j] != want[i] || m.get(j) != want[i] {
					t.Fatalf("run %d to %d of %v", i, end, want)
				}
			}
			if end < 256 && want[end] == want[i] {
				t.Fatalf("run %d ends at %d, too early", i, end)
			}
			i = end
		}
	}
}
