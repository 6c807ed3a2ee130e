package runner

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/sandkasten/sandkasten/protocol"
)

// shortWait is the least that a write may take: it must be tried at all.
const shortWait = 10 * time.Millisecond

// takeStdin hands bytes to the program's stdin.
func (p *program) takeStdin(req protocol.Stdin, src io.Reader, wanted func() bool) (protocol.Taken, error) {
	var taken protocol.Taken
	gone := protocol.Refuse(protocol.CodeConflict, "the stdin of %q is not open; start the program with open_stdin", req.ID)
	switch {
	case p.stdin == nil:
		return taken, gone
	case p.start.TTY && req.Close:
		return taken, protocol.Refuse(protocol.CodeInvalid, "a terminal's stdin cannot be closed; send the byte 0x04 (Ctrl-D) instead")
	}
	until := time.Now().Add(max(shortWait, time.Duration(min(req.WaitMS, maxWait.Milliseconds()))*time.Millisecond))
	if !p.stdin.Take(until, wanted) {
		return taken, nil
	}
	defer p.stdin.Give()
	var err error
	taken.Bytes, err = p.stdin.Copy(src, until, wanted)
	switch {
	case err == nil && req.Close:
		p.stdin.Close()
		taken.Closed = true
	case err != nil && taken.Bytes == 0 && !errors.Is(err, os.ErrDeadlineExceeded):
		return taken, gone
	}
	return taken, nil
}
