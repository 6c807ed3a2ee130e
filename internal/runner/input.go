package runner

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/sandkasten/sandkasten/internal/runner/pipe"
	"github.com/sandkasten/sandkasten/protocol"
)

// shortWait is the least that a write may take: it must be tried at all.
const shortWait = 10 * time.Millisecond

// stdinTaker is what takes stdin while it runs: a program, or a shell's command
// that was started with open_stdin.
type stdinTaker interface {
	takeStdin(req protocol.Stdin, src io.Reader, wanted func() bool) (protocol.Taken, error)
}

// stdinTaker returns what takes the stdin of an exec.
func (r *Runner) stdinTaker(id string) (stdinTaker, error) {
	e, err := r.records.get(id)
	if err != nil {
		return nil, err
	}
	if e.input != nil {
		return e, nil
	}
	return r.program(id)
}

// takeStdin hands bytes to the program's stdin.
func (p *program) takeStdin(req protocol.Stdin, src io.Reader, wanted func() bool) (protocol.Taken, error) {
	switch {
	case p.stdin == nil:
		return protocol.Taken{}, stdinClosed(req.ID)
	case p.start.TTY && req.Close:
		return protocol.Taken{}, protocol.Refuse(protocol.CodeInvalid, "a terminal's stdin cannot be closed; send the byte 0x04 (Ctrl-D) instead")
	}
	return copyStdin(p.stdin, req, src, takeUntil(req), wanted)
}

// takeStdin hands bytes to the stdin of a shell's command. One that is still in the
// queue takes nothing, and is waited for.
func (e *exec) takeStdin(req protocol.Stdin, src io.Reader, wanted func() bool) (protocol.Taken, error) {
	until := takeUntil(req)
	if !e.awaitBegin(until, wanted) {
		return protocol.Taken{}, nil
	}
	in, open := e.input.use()
	switch {
	case !open:
		return protocol.Taken{}, stdinClosed(req.ID)
	case in == nil: // a fresh shell is about to run the command
		return protocol.Taken{}, nil
	}
	return copyStdin(in, req, src, until, wanted)
}

// awaitBegin waits until the command of a shell has begun or ended.
func (e *exec) awaitBegin(until time.Time, wanted func() bool) bool {
	for {
		select {
		case <-e.input.begun:
			return true
		case <-e.done:
			return true
		case <-time.After(max(0, min(time.Second, time.Until(until)))):
			if !time.Now().Before(until) || !wanted() {
				return false
			}
		}
	}
}

// takeUntil is when a request for stdin is answered at the latest.
func takeUntil(req protocol.Stdin) time.Time {
	return time.Now().Add(max(shortWait, time.Duration(min(req.WaitMS, maxWait.Milliseconds()))*time.Millisecond))
}

func stdinClosed(id string) error {
	return protocol.Refuse(protocol.CodeConflict, "the stdin of %q is not open; start it with open_stdin", id)
}

// copyStdin writes what src has to a stdin, and closes that if the request says so.
func copyStdin(in *pipe.Input, req protocol.Stdin, src io.Reader, until time.Time, wanted func() bool) (taken protocol.Taken, err error) {
	if !in.Take(until, wanted) {
		return taken, nil
	}
	defer in.Give()
	taken.Bytes, err = in.Copy(src, until, wanted)
	switch {
	case err == nil && req.Close:
		in.Close()
		taken.Closed = true
	case err != nil && taken.Bytes == 0 && !errors.Is(err, os.ErrDeadlineExceeded):
		return taken, stdinClosed(req.ID)
	}
	return taken, nil
}

// input is the stdin of a shell's command that stays open: a pipe of the shell's,
// from when the shell has the command until that ends. The methods of nil, which
// is any other stdin, do nothing.
type input struct {
	begun chan struct{} // closed when the command can first be given something

	mu     sync.Mutex
	pipe   *pipe.Input // guarded by mu; nil while no shell has the command
	used   bool        // guarded by mu; some of it may have been given
	closed bool        // guarded by mu; the command has ended
}

func newInput() *input { return &input{begun: make(chan struct{})} }

// connect opens the pipe, unless a try before this one in the same shell did.
func (in *input) connect(source *pipe.Source) (err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.pipe == nil {
		in.pipe, err = source.Open()
	}
	return err
}

// begin lets clients write, behind head, which is fed to the pipe that it returns.
// It returns nil if there is nothing to feed, or that has been done.
func (in *input) begin(head []byte) (feed *pipe.Input) {
	if in == nil {
		return nil
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(head) > 0 && !in.used {
		in.used, feed = true, in.pipe
		feed.Hold() // before anybody else can
	}
	select {
	case <-in.begun:
	default:
		close(in.begun)
	}
	return feed
}

// use returns the pipe for somebody who writes to it, or nil while there is none.
func (in *input) use() (p *pipe.Input, open bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return nil, false
	}
	in.used = in.used || in.pipe != nil
	return in.pipe, true
}

// forget lets go of a pipe whose shell could not run the command, and reports
// whether another shell can have all of the stdin.
func (in *input) forget() bool {
	if in == nil {
		return true
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.pipe != nil {
		in.pipe.Close()
		in.pipe = nil
	}
	return !in.used
}

// close ends the stdin. Who is writing to it stops.
func (in *input) close() {
	if in == nil {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	if in.pipe != nil {
		in.pipe.Close()
	}
}
