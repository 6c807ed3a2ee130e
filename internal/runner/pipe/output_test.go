package pipe_test

import (
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/output"
	"github.com/sandkasten/sandkasten/internal/runner/pipe"
	"github.com/sandkasten/sandkasten/protocol"
)

// Two pipes wait for room in the output that both go to, and one has nothing to
// bring there: the other is read all the same, whichever is woken first.
func TestRoomIsNotLeftToAQuietPipe(t *testing.T) {
	at := roomBehind()
	for range 30 {
		sink := full()
		rd := sink.Attach(at)
		var mu sync.Mutex
		busy, w1 := watched(t, &mu, sink)
		quiet, w2 := watched(t, &mu, sink)
		if _, err := io.WriteString(w1, "last"); err != nil {
			t.Fatal(err)
		}
		var pumps sync.WaitGroup
		pumps.Go(busy.Pump)
		pumps.Go(quiet.Pump)
		time.Sleep(2 * time.Millisecond) // until both wait: if not, less is tried

		before, _ := sink.Counts()
		rd.Read(make([]byte, 64<<10)) // which wakes one of them
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
			if total, _ := sink.Counts(); total == before+4 {
				break
			}
			if time.Now().After(end) {
				t.Fatal("what is in the pipe is not read, though there is room")
			}
		}
		rd.Detach()
		w1.Close()
		w2.Close()
		busy.Close()
		quiet.Close()
		pumps.Wait()
	}
}

// full returns an output that is, for those who read it from its beginning.
func full() *output.Output {
	o := output.New(&output.Budget{Max: 1 << 30}, output.Apart, output.Floor)
	rd := o.Attach(0)
	for buf := o.Reserve(); buf != nil; buf = o.Reserve() {
		o.Commit(len(buf), protocol.StreamStdout)
	}
	rd.Detach()
	<-o.Room
	return o
}

// roomBehind is where a reader of a full output has to be for its next read to
// make room.
func roomBehind() int64 {
	o := full()
	for rd := o.Attach(0); ; {
		c, _ := rd.Read(make([]byte, 64<<10))
		if o.Reserve() != nil {
			return c.Offset
		}
	}
}

// watched returns an output pipe that is ready for its pump, and its writer's end.
func watched(t *testing.T, mu *sync.Mutex, sink *output.Output) (*pipe.Output, *os.File) {
	t.Helper()
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	out := pipe.Wrap(ends[0], protocol.StreamStdout, mu)
	out.Direct(sink)
	if _, err := out.Watch(); err != nil {
		t.Fatal(err)
	}
	return out, os.NewFile(uintptr(ends[1]), "writer")
}
