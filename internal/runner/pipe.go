package runner

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/output"
	"github.com/sandkasten/sandkasten/protocol"
)

// outPipe is an output pipe of a shell or a program, or its terminal. A shell
// opens its pipes by path for each command and holds no writing end of its
// own, so the pipe tells whether anything that an earlier command left behind
// could still write to it.
type outPipe struct {
	fd     int      // the reading end
	file   *os.File // the same, for waiting on it
	raw    syscall.RawConn
	stream protocol.Stream

	mu      *sync.Mutex    // of all pipes to one output: reading and storing are one act
	taken   int64          // guarded by mu; bytes read
	last    bool           // guarded by mu; its end closes it
	sink    *output.Output // guarded by mu; nil between commands: what comes is dropped
	scratch []byte         // guarded by mu
	closed  bool           // guarded by mu

	turn chan struct{} // wakes a pump that waits for room
}

// flow says where reading from a pipe stopped.
type flow int

const (
	flowEmpty  flow = iota // nothing there now, but somebody can write
	flowEnd                // nobody has it open for writing
	flowFull               // the sink has no room
	flowClosed             // close was called, or is due
)

func newOutPipe() (*outPipe, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, os.NewSyscallError("pipe2", err)
	}
	closeFD(fds[1])
	// Whoever the shell has become by then may open it.
	if err := unix.Fchmod(fds[0], 0o666); err != nil {
		closeFD(fds[0])
		return nil, os.NewSyscallError("fchmod", err)
	}
	return wrapPipe(fds[0], protocol.StreamOutput, new(sync.Mutex))
}

// wrapPipe makes fd, which does not block, an outPipe's own.
func wrapPipe(fd int, stream protocol.Stream, mu *sync.Mutex) (*outPipe, error) {
	file := os.NewFile(uintptr(fd), "output")
	raw, err := file.SyscallConn()
	if err != nil {
		closeFD(fd)
		return nil, err
	}
	return &outPipe{fd: fd, file: file, raw: raw, stream: stream, mu: mu, turn: make(chan struct{}, 1)}, nil
}

// pump moves what is written to the sink until the pipe is closed.
func (p *outPipe) pump() {
	for {
		var at flow
		err := p.raw.Read(func(uintptr) bool {
			at = p.settle()
			return at == flowFull || at == flowClosed
		})
		if err != nil || at == flowClosed {
			return
		}
		p.mu.Lock()
		sink := p.sink
		p.mu.Unlock()
		if sink == nil {
			continue
		}
		select {
		case <-sink.Room:
		case <-p.turn:
		}
	}
}

// settle reads all there is now. Reading and storing are one act under the
// lock: whoever calls it next continues where the output left off.
func (p *outPipe) settle() flow {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return flowClosed
	}
	for {
		buf := p.space()
		if buf == nil {
			return flowFull
		}
		n, err := unix.Read(p.fd, buf)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EIO: // a terminal that nobody has open
			return p.ended()
		case err != nil:
			return flowEmpty
		case n == 0:
			return p.ended()
		}
		p.taken += int64(n)
		if p.sink != nil {
			p.sink.Commit(n, p.stream)
		}
	}
}

func (p *outPipe) ended() flow {
	if p.last {
		return flowClosed
	}
	return flowEnd
}

// space returns where to read to, nil if there is no room. p.mu is held.
func (p *outPipe) space() []byte {
	if p.sink != nil {
		return p.sink.Reserve()
	}
	if p.scratch == nil {
		p.scratch = make([]byte, 4<<10)
	}
	return p.scratch
}

// direct sends what comes from now on to sink, or drops it if sink is nil.
func (p *outPipe) direct(sink *output.Output) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sink = sink
	output.Wake(p.turn)
}

// close ends the pump. Closing again does nothing.
func (p *outPipe) close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	p.sink = nil
	p.mu.Unlock()
	output.Wake(p.turn)
	return p.file.Close()
}

// rest is the position in all that was ever written up to which the pipe can
// be read now.
func (p *outPipe) rest() int64 {
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

// reached reports whether the pipe has been read up to a position.
func (p *outPipe) reached(at int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken >= at
}

// loosen drops what comes from now on, for as long as anybody can write. It
// reports whether nobody can.
func (p *outPipe) loosen() bool {
	p.mu.Lock()
	p.last, p.sink = true, nil
	p.mu.Unlock()
	output.Wake(p.turn)
	return p.settle() == flowClosed
}
