package runner

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// outPipe is one of a shell's output pipes. A shell opens it by path for each
// command and holds no writing end of its own, so the pipe tells whether
// anything that an earlier command left behind could still write to it.
type outPipe struct {
	fd   int      // the reading end
	file *os.File // the same, for waiting on it
	raw  syscall.RawConn

	mu      sync.Mutex
	sink    *output // guarded by mu; nil between commands: what comes is dropped
	scratch []byte  // guarded by mu
	closed  bool    // guarded by mu

	turn chan struct{} // wakes a pump that waits for room
}

// flow says where reading from a pipe stopped.
type flow int

const (
	flowEmpty  flow = iota // nothing there now, but somebody can write
	flowEnd                // nobody has it open for writing
	flowFull               // the sink has no room
	flowClosed             // close was called
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
	file := os.NewFile(uintptr(fds[0]), "output")
	raw, err := file.SyscallConn()
	if err != nil {
		closeFD(fds[0])
		return nil, err
	}
	return &outPipe{fd: fds[0], file: file, raw: raw, turn: make(chan struct{}, 1)}, nil
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
		case <-sink.room:
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
		case err != nil:
			return flowEmpty
		case n == 0:
			return flowEnd
		}
		if p.sink != nil {
			p.sink.commit(n)
		}
	}
}

// space returns where to read to, nil if there is no room. p.mu is held.
func (p *outPipe) space() []byte {
	if p.sink != nil {
		return p.sink.reserve()
	}
	if p.scratch == nil {
		p.scratch = make([]byte, 4<<10)
	}
	return p.scratch
}

// direct sends what comes from now on to sink, or drops it if sink is nil.
func (p *outPipe) direct(sink *output) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sink = sink
	wake(p.turn)
}

// close ends the pump.
func (p *outPipe) close() error {
	p.mu.Lock()
	p.closed = true
	p.sink = nil
	p.mu.Unlock()
	wake(p.turn)
	return p.file.Close()
}
