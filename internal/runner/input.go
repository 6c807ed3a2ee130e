package runner

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/sandkasten/sandkasten/protocol"
)

// input is the open stdin of a program: the writing end of a pipe, or its
// terminal.
type input struct {
	file *os.File
	turn chan struct{} // holds a token while nobody writes
}

func newInput(file *os.File) *input {
	in := &input{file: file, turn: make(chan struct{}, 1)}
	in.turn <- struct{}{}
	return in
}

// shortWait is the least that a write may take: it must be tried at all.
const shortWait = 10 * time.Millisecond

// take waits for the other writers until a time, as long as wanted says so.
// The turn must be given back.
func (in *input) take(until time.Time, wanted func() bool) bool {
	timer := time.NewTimer(untilNext(goneCheck, until))
	defer timer.Stop()
	for {
		select {
		case <-in.turn:
			return true
		case now := <-timer.C:
			if !now.Before(until) || !wanted() {
				return false
			}
			timer.Reset(untilNext(goneCheck, until))
		}
	}
}

func (in *input) give() { in.turn <- struct{}{} }

// feed writes the stdin that came with the request, and then closes, if it is
// all that there is. The turn is taken already.
func (in *input) feed(b []byte, last bool) {
	defer in.give()
	if err := in.file.SetWriteDeadline(time.Time{}); err != nil {
		return // closed: the program has ended
	}
	if _, err := in.file.Write(b); err != nil {
		return // it does not want it
	}
	if last {
		in.close()
	}
}

// copy writes what src has until a time, as long as wanted says so. It returns
// how much was written: all of it if err is nil.
func (in *input) copy(src io.Reader, until time.Time, wanted func() bool) (written int64, err error) {
	buf := make([]byte, 4<<10)
	for {
		n, rerr := src.Read(buf)
		for b := buf[:n]; len(b) > 0; {
			if err := in.file.SetWriteDeadline(earlier(until, time.Now().Add(goneCheck))); err != nil {
				return written, err
			}
			m, err := in.file.Write(b)
			written, b = written+int64(m), b[m:]
			if err == nil {
				continue
			}
			if !errors.Is(err, os.ErrDeadlineExceeded) || !time.Now().Before(until) || !wanted() {
				return written, err
			}
		}
		if errors.Is(rerr, io.EOF) {
			return written, nil
		}
		if rerr != nil {
			return written, rerr
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// close is the end of file, or after the program's end nothing.
func (in *input) close() {
	if err := in.file.Close(); err != nil {
		return // it is closed already
	}
}

// takeStdin hands bytes to the program's stdin.
func (p *program) takeStdin(req protocol.Stdin, src io.Reader, wanted func() bool) (int64, error) {
	gone := protocol.Refuse(protocol.CodeConflict, "the stdin of %q is not open; start the program with open_stdin", req.ID)
	switch {
	case p.stdin == nil:
		return 0, gone
	case p.start.TTY && req.Close:
		return 0, protocol.Refuse(protocol.CodeInvalid, "a terminal's stdin cannot be closed; send the byte 0x04 (Ctrl-D) instead")
	}
	until := time.Now().Add(max(shortWait, time.Duration(min(req.WaitMS, maxWait.Milliseconds()))*time.Millisecond))
	if !p.stdin.take(until, wanted) {
		return 0, nil
	}
	defer p.stdin.give()
	n, err := p.stdin.copy(src, until, wanted)
	switch {
	case err == nil && req.Close:
		p.stdin.close()
	case err != nil && n == 0 && !errors.Is(err, os.ErrDeadlineExceeded):
		return 0, gone
	}
	return n, nil
}
