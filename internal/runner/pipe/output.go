// Package pipe is the runner's end of what a command or program reads and
// writes: pipes and terminals. What output is kept and who gets it is the business
// of package output.
package pipe

import (
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/fds"
	"github.com/sandkasten/sandkasten/internal/runner/output"
	"github.com/sandkasten/sandkasten/protocol"
)

// Output is an output pipe of a shell or a program, or its terminal. A shell
// opens its pipes by path for each command and holds no end of its own, so the
// pipe tells whether anything that an earlier command left behind could still
// write to it.
type Output struct {
	fd     int // the reading end
	stream protocol.Stream

	mu      *sync.Mutex    // of all pipes to one output: reading and storing are one act
	file    *os.File       // guarded by mu; what a pump waits for, if there is one
	taken   int64          // guarded by mu; bytes read
	last    bool           // guarded by mu; its end closes it
	sink    *output.Output // guarded by mu; nil between commands: what comes is dropped
	scratch []byte         // guarded by mu
	ahead   []byte         // guarded by mu; read already, by Trim
	closed  bool           // guarded by mu

	turn chan struct{} // wakes a pump that waits for room
}

// Flow says where reading from a pipe stopped.
type Flow int

// The flows.
const (
	Empty  Flow = iota // nothing there now, but somebody can write
	End                // nobody has it open for writing
	Full               // the sink has no room
	Closed             // Close was called, or is due
)

// NewOutput makes a pipe that anybody who finds it may open for writing. mu is that
// of all pipes that may have the same sink. The caller closes it.
func NewOutput(mu *sync.Mutex) (*Output, error) {
	fd, err := openPipe()
	if err != nil {
		return nil, err
	}
	return &Output{fd: fd, stream: protocol.StreamOutput, mu: mu, turn: make(chan struct{}, 1)}, nil
}

// openPipe returns the reading end of a pipe that a shell can open by path,
// whatever user it has become by then.
func openPipe() (int, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return -1, os.NewSyscallError("pipe2", err)
	}
	fds.Close(ends[1])
	if err := unix.Fchmod(ends[0], 0o666); err != nil {
		fds.Close(ends[0])
		return -1, os.NewSyscallError("fchmod", err)
	}
	return ends[0], nil
}

// Wrap makes fd, which does not block, an Output's own.
func Wrap(fd int, stream protocol.Stream, mu *sync.Mutex) *Output {
	return &Output{fd: fd, stream: stream, mu: mu, turn: make(chan struct{}, 1)}
}

// Watch makes the pipe ready for a pump, and reports whether it was not. The
// Pump has a descriptor of its own, because the Go runtime is told of every
// event on those that it waits for, for as long as they are open: a thread's
// wake-up for every short command.
func (p *Output) Watch() (news bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.file != nil || p.closed {
		return false, nil
	}
	fd, err := unix.FcntlInt(uintptr(p.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return false, os.NewSyscallError("fcntl", err)
	}
	p.file = os.NewFile(uintptr(fd), "output")
	return true, nil
}

// Pump moves what is written to the sink until the pipe is closed, or has no
// sink and nobody who could write. Before it, the pipe must have been made
// ready for it.
func (p *Output) Pump() {
	p.mu.Lock()
	file := p.file
	p.mu.Unlock()
	for p.move(file) {
	}
	if file.Close() != nil {
		return // it was closed before, which does not happen
	}
}

// move is one turn of the pump. It reports whether there is to be another.
func (p *Output) move(file *os.File) bool {
	var at Flow
	raw, err := file.SyscallConn()
	if err == nil {
		err = raw.Read(func(uintptr) bool {
			at = p.Settle()
			return at == Full || p.over(at)
		})
	}
	if errors.Is(err, os.ErrDeadlineExceeded) { // it was kicked
		err = file.SetReadDeadline(time.Time{})
		at = Empty
	}
	p.mu.Lock()
	sink := p.sink
	if err != nil || at == Closed || at == End && sink == nil {
		p.file = nil
		p.mu.Unlock()
		return false
	}
	p.mu.Unlock()
	if at == Full && sink != nil {
		select {
		case <-sink.Room:
		case <-p.turn:
		}
	}
	return true
}

// over reports whether a pump has nothing more to do.
func (p *Output) over(at Flow) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return at == Closed || at == End && p.sink == nil
}

// kick has the pump look at what has changed. p.mu is held.
func (p *Output) kick() {
	if p.file == nil {
		return
	}
	output.Wake(p.turn)
	if p.file.SetReadDeadline(time.Now()) != nil {
		return // it is about to end
	}
}

// Settle reads all there is now. Reading and storing are one act under the
// lock: whoever calls it next continues where the output left off.
func (p *Output) Settle() Flow {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return Closed
	}
	for {
		buf := p.space()
		if buf == nil {
			return Full
		}
		n, err := p.read(buf)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EIO): // a terminal that nobody has open
			return p.ended()
		case err != nil:
			return Empty
		case n == 0:
			return p.ended()
		}
		p.taken += int64(n)
		if p.sink != nil {
			p.sink.Commit(n, p.stream)
		}
	}
}

// read takes what comes next. p.mu is held.
func (p *Output) read(buf []byte) (int, error) {
	if len(p.ahead) > 0 {
		n := copy(buf, p.ahead)
		p.ahead = p.ahead[n:]
		return n, nil
	}
	return unix.Read(p.fd, buf)
}

// trimMost bounds what Trim looks at.
const trimMost = 64 << 10

// Trim leaves of what is there now what keep returns of it, for the next Settle.
func (p *Output) Trim(keep func([]byte) []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	buf := make([]byte, trimMost)
	n := 0
	for n < len(buf) {
		m, err := p.read(buf[n:])
		if !errors.Is(err, unix.EINTR) && m <= 0 {
			break
		}
		n += max(0, m)
	}
	p.ahead = append(keep(buf[:n]), p.ahead...)
}

func (p *Output) ended() Flow {
	if p.last {
		return Closed
	}
	return End
}

// space returns where to read to, nil if there is no room. p.mu is held.
func (p *Output) space() []byte {
	if p.sink != nil {
		return p.sink.Reserve()
	}
	if p.scratch == nil {
		p.scratch = make([]byte, 4<<10)
	}
	return p.scratch
}

// Direct sends what comes from now on to sink, or drops it if sink is nil.
func (p *Output) Direct(sink *output.Output) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sink = sink
	p.kick()
}

// Close ends the pump, but does not wait for it. Closing again does nothing.
func (p *Output) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed, p.sink = true, nil
		p.kick()
		fds.Close(p.fd)
	}
}

// FD is the reading end, valid until Close.
func (p *Output) FD() int { return p.fd }

// Input returns the stdin of a program whose terminal p is, which is watched.
// It is closed with p.
func (p *Output) Input() *Input { return NewInput(p.file) }

// Control calls f with the descriptor, which is that of a terminal.
func (p *Output) Control(f func(fd int) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return os.ErrClosed
	}
	return f(p.fd)
}

// Rest is the position in all that was ever written up to which the pipe can
// be read now.
func (p *Output) Rest() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return p.taken
	}
	n, err := unix.IoctlGetInt(p.fd, unix.TIOCINQ) // FIONREAD by another name
	if err != nil {
		return p.taken
	}
	return p.taken + int64(n)
}

// Unread is how much was written that nobody has read.
func (p *Output) Unread() int64 {
	rest := p.Rest()
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, rest-p.taken)
}

// Reached reports whether the pipe has been read up to a position.
func (p *Output) Reached(at int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken >= at
}

// Loosen drops what comes from now on, for as long as anybody can write. It
// reports whether nobody can.
func (p *Output) Loosen() bool {
	p.mu.Lock()
	p.last, p.sink = true, nil
	p.kick()
	p.mu.Unlock()
	return p.Settle() == Closed
}
