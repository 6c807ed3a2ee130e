package runner

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// outPipe is one of a shell's output pipes. A shell opens it by path for each
// command and holds no end of its own, so the pipe tells whether anything that
// an earlier command left behind could still write to it.
type outPipe struct {
	fd int // the reading end

	mu      sync.Mutex
	sink    *output  // guarded by mu; nil between commands: what comes is dropped
	fresh   bool     // guarded by mu; the sink got something
	scratch []byte   // guarded by mu
	grown   bool     // guarded by mu
	closed  bool     // guarded by mu
	pumped  *os.File // guarded by mu; what the pump waits for, nil if there is none

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
	return &outPipe{fd: fds[0], turn: make(chan struct{}, 1)}, nil
}

// pump moves what is written to the sink in the background, as long as there
// is a sink or somebody who could write.
func (p *outPipe) pump(wg *sync.WaitGroup) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pumped != nil || p.closed {
		return nil
	}
	// A descriptor of its own, because the Go runtime is told of every event on
	// those that it waits for, for as long as they are open.
	fd, err := unix.FcntlInt(uintptr(p.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	file := os.NewFile(uintptr(fd), "output")
	raw, err := file.SyscallConn()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	p.pumped = file
	wg.Go(func() { p.move(raw) })
	return nil
}

// move is the pump.
func (p *outPipe) move(raw syscall.RawConn) {
	for {
		var at flow
		err := raw.Read(func(uintptr) bool {
			at = p.settle()
			return at != flowEmpty && (at != flowEnd || !p.wanted())
		})
		kicked := errors.Is(err, os.ErrDeadlineExceeded)
		p.mu.Lock()
		if kicked {
			err = p.pumped.SetReadDeadline(time.Time{})
		}
		if err != nil || !kicked && at != flowFull {
			p.stop()
			p.mu.Unlock()
			return
		}
		sink := p.sink
		p.mu.Unlock()
		if kicked || sink == nil {
			continue
		}
		select {
		case <-sink.room:
		case <-p.turn:
		}
	}
}

// stop ends the pump, which is the caller. p.mu is held.
func (p *outPipe) stop() {
	if err := p.pumped.Close(); err != nil {
		return // it was closed before, which does not happen
	}
	p.pumped = nil
}

// used reports whether something was written to the sink.
func (p *outPipe) used() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fresh
}

// wanted reports whether somebody waits for output.
func (p *outPipe) wanted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sink != nil
}

// settle reads all there is now. Reading and storing are one act under the
// lock: whoever calls it next continues where the output left off.
func (p *outPipe) settle() flow {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return flowClosed
	}
	for taken := 0; ; {
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
			p.fresh = true
			p.sink.commit(n)
		}
		if taken += n; taken >= firstSize && !p.grown {
			p.grow()
		}
	}
}

// Sizes of a pipe.
const (
	firstSize = 64 << 10 // what the kernel gives
	grownSize = 256 << 10
)

// grow makes the pipe larger, for a command that writes a lot: it and its
// reader then wait for each other less often. The kernel refuses that to a
// user who has very many pipes. p.mu is held.
func (p *outPipe) grow() {
	p.grown = true
	if _, err := unix.FcntlInt(uintptr(p.fd), unix.F_SETPIPE_SZ, grownSize); err != nil {
		return // it works as well as it is
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
	p.sink, p.fresh = sink, false
	p.kick()
}

// kick makes the pump look at what has changed. p.mu is held.
func (p *outPipe) kick() {
	if p.pumped == nil {
		return
	}
	wake(p.turn)
	if err := p.pumped.SetReadDeadline(time.Now()); err != nil {
		return // it is closed already
	}
}

// close ends the pump, but does not wait for it.
func (p *outPipe) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed, p.sink = true, nil
		p.kick()
		closeFD(p.fd)
	}
}
