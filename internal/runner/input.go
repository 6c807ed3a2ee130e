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
func (p *program) takeStdin(req protocol.Stdin, src io.Reader, wanted func() bool) (int64, error) {
	gone := protocol.Refuse(protocol.CodeConflict, "the stdin of %q is not open; start the program with open_stdin", req.ID)
	switch {
	case p.stdin == nil:
		return 0, gone
	case p.start.TTY && req.Close:
		return 0, protocol.Refuse(protocol.CodeInvalid, "a terminal's stdin cannot be closed; send the byte 0x04 (Ctrl-D) instead")
	}
	until := time.Now().Add(max(shortWait, time.Duration(min(req.WaitMS, maxWait.Milliseconds()))*time.Millisecond))
	if !p.stdin.Take(until, wanted) {
		return 0, nil
	}
	defer p.stdin.Give()
	n, err := p.stdin.Copy(src, until, wanted)
	switch {
	case err == nil && req.Close:
		p.stdin.Close()
	case err != nil && n == 0 && !errors.Is(err, os.ErrDeadlineExceeded):
		return 0, gone
	}
	return n, nil
}
