package output

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// fill writes text to o, reading with nobody.
func (o *Output) fill(t *testing.T, text []byte) {
	t.Helper()
	for len(text) > 0 {
		buf := o.Reserve()
		if buf == nil {
			t.Fatal("the writer must wait though nobody reads")
		}
		n := copy(buf, text)
		o.Commit(n, "")
		text = text[n:]
	}
}

func testBudget(max int64) *Budget {
	return &Budget{Max: max, Evict: func() bool { return false }}
}

// What is kept is the beginning and the end, within the limit, and each byte
// is where its offset says.
func TestOutputKeepsBeginningAndEnd(t *testing.T) {
	for range 200 {
		b := testBudget(1 << 40)
		limit := Floor + rand.Int64N(1<<20)
		o := New(b, Combined, limit)
		text := make([]byte, rand.Int64N(3<<20))
		for i := range text {
			text[i] = byte(i*7 + i>>8)
		}
		for at := 0; at < len(text); {
			n := min(len(text)-at, 1+rand.IntN(90_000))
			o.fill(t, text[at:at+n])
			at += n
		}
		o.End()
		total, dropped := o.Counts()
		if total != int64(len(text)) || o.Memory() > limit || b.Used() != o.Memory() {
			t.Fatalf("%d of %d bytes, %d of memory, %d taken, limit %d", total, len(text), o.Memory(), b.Used(), limit)
		}
		if total <= limit/2 && dropped > 0 {
			t.Fatalf("%d of %d bytes dropped with a limit of %d", dropped, total, limit)
		}
		from := rand.Int64N(total + 10)
		kept := readAll(t, o, from, text)
		if from == 0 && kept != total-dropped {
			t.Fatalf("read %d bytes, want %d", kept, total-dropped)
		}
		if dropped > 0 && (dropped > total-limit/2 || !startsAt(o, limit/8) || !endsAt(o, total, limit/8)) {
			t.Fatalf("%d of %d dropped with a limit of %d: not from the middle", dropped, total, limit)
		}
		o.Discard()
		if b.Used() != 0 {
			t.Fatalf("%d bytes of memory are not given back", b.Used())
		}
	}
}

func startsAt(o *Output, n int64) bool {
	c, _ := o.Attach(0).Read(make([]byte, 1))
	first := o.pieces[0]
	return c.Bytes == 1 && first.offset == 0 && n > 0
}

func endsAt(o *Output, total, n int64) bool {
	last := o.pieces[len(o.pieces)-1]
	return last.offset+int64(len(last.data)) == total && n > 0
}

// readAll reads from offset to the end and compares with text.
func readAll(t *testing.T, o *Output, from int64, text []byte) (n int64) {
	t.Helper()
	r := o.Attach(from)
	defer r.Detach()
	buf := make([]byte, 1+rand.IntN(50_000))
	last := from
	for {
		c, ended := r.Read(buf)
		at, k := c.Offset, c.Bytes
		if k == 0 {
			if !ended {
				t.Fatal("no more, but not ended")
			}
			return n
		}
		if at < last || !bytes.Equal(buf[:k], text[at:at+int64(k)]) {
			t.Fatalf("wrong bytes at %d after %d", at, last)
		}
		last = at + int64(k)
		n += int64(k)
	}
}

// While a reader is attached nothing is lost to it; detached, or after flood,
// the writer goes on.
func TestOutputWaitsForReader(t *testing.T) {
	o := New(testBudget(1<<40), Combined, Floor)
	r := o.Attach(0)
	wrote := int64(0)
	for {
		buf := o.Reserve()
		if buf == nil {
			break
		}
		o.Commit(len(buf), "")
		wrote += int64(len(buf))
		if wrote > Floor {
			t.Fatalf("%d bytes were taken beyond the limit", wrote)
		}
	}
	if _, dropped := o.Counts(); dropped > 0 {
		t.Errorf("%d bytes dropped", dropped)
	}
	drainRoom(o)
	var read int64
	buf := make([]byte, 5000)
	for range 10 {
		c, _ := r.Read(buf)
		read += int64(c.Bytes)
	}
	select {
	case <-o.Room:
	default:
		t.Error("the writer is not told that there is room")
	}
	for read < wrote {
		c, _ := r.Read(buf)
		if c.Offset != read {
			t.Fatalf("offset %d, want %d", c.Offset, read)
		}
		read += int64(c.Bytes)
	}
	if o.Reserve() == nil {
		t.Fatal("no room though all was read")
	}
	o.Commit(1, "")
	for o.Reserve() != nil {
		o.Commit(len(o.Reserve()), "")
	}
	o.Flood()
	if o.Reserve() == nil {
		t.Error("flood does not let the writer go on")
	}
	r.Detach()
}

func drainRoom(o *Output) {
	select {
	case <-o.Room:
	default:
	}
}

// What a screen shows before anybody comes is kept for who is awaited, and the
// writer waits meanwhile, but not for ever.
func TestOutputAwaitsFirstReader(t *testing.T) {
	for name, come := range map[string]bool{"comes": true, "does not come": false} {
		synctest.Test(t, func(t *testing.T) {
			o := New(testBudget(1<<40), Screen, 0)
			o.Await(time.Minute)
			if o.Watched() {
				t.Errorf("%s: somebody is there", name)
			}
			for o.Reserve() != nil {
				o.Commit(len(o.Reserve()), "")
			}
			if come {
				r := o.Attach(0)
				defer r.Detach()
				if c, _ := r.Read(make([]byte, 10)); c.Offset != 0 || c.Bytes != 10 || o.Reserve() != nil {
					t.Errorf("%s: %+v", name, c)
				}
				return
			}
			time.Sleep(2 * time.Minute)
			<-o.Room
			if o.Reserve() == nil {
				t.Errorf("%s: the writer waits", name)
			}
		})
	}
}
