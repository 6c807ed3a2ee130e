package runner

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/fileops"
	"github.com/sandkasten/sandkasten/internal/spawn"
	"github.com/sandkasten/sandkasten/protocol"
)

// maxWatches is how many watches of directories there are at once.
const maxWatches = 16

// answerFiles answers a request about files. What may take much is done by a
// tool, a process that counts against the sandbox's limits and not the
// runner's.
func (c *conn) answerFiles(h protocol.Header) error {
	if h.Type == protocol.TypeWatch {
		if c.r.watches.Add(1) > maxWatches {
			c.r.watches.Add(-1)
			return protocol.Refuse(protocol.CodeExhausted, "the sandbox has %d watches, which is the limit; end one", maxWatches)
		}
		defer c.r.watches.Add(-1)
	}
	if c.r.opts.Tool > 0 && fileops.Heavy(c.r.files, h) {
		return c.delegate(h)
	}
	ops := &fileops.Conn{Files: c.r.files, File: c.file, FD: c.fd, In: c.in, Out: c.out}
	return ops.Answer(h)
}

// delegate has a tool answer the request, on this connection, and waits for
// its end.
func (c *conn) delegate(h protocol.Header) error {
	var opened fdSet
	defer opened.close()
	request := opened.memory("request")
	began := opened.pipe()
	null := opened.open("/dev/null", unix.O_RDWR)
	if opened.err != nil {
		return opened.err
	}
	if err := unix.SetNonblock(began[0], true); err != nil {
		return err
	}
	frame, rest, err := c.in.Surrender(h)
	if err != nil {
		return err
	}
	if err := fill(request, frame); err != nil {
		return err
	}
	tool, err := c.r.reaper.start(&spawn.Cmd{
		ExecFD: c.r.opts.Tool,
		Args:   fileops.ToolArgs(c.r.opts.Workspace, rest),
		Files:  fileops.ToolFiles(null, c.fd, request, began[1]),
		Steps:  []spawn.Step{umask()},
	})
	if err != nil {
		c.in.Reclaim(rest) // to be discarded
		return noTool(err)
	}
	defer tool.release()
	c.awaitTool(tool)
	if ws := tool.status; ws.Exited() && ws.ExitStatus() == 0 {
		return nil
	}
	if n, err := unix.Read(began[0], make([]byte, 1)); err != nil || n == 0 {
		c.lastWord(protocol.Refuse(protocol.CodeExhausted, "the sandbox ended the work on its files, perhaps for want of memory; what was done so far stays"))
	}
	return errBroken
}

// noTool explains why a tool could not be started. What the sandbox has too
// little of is its user's matter.
func noTool(err error) error {
	for _, short := range []error{unix.EAGAIN, unix.ENOMEM, unix.EMFILE, unix.ENFILE} {
		if errors.Is(err, short) {
			return protocol.Refuse(protocol.CodeExhausted, "the sandbox has no process or memory left for this; end some of its programs")
		}
	}
	return protocol.Refuse(protocol.CodeUnavailable, "the sandbox cannot start a process for this: %v", err)
}

// awaitTool returns when the tool has ended. It is killed when the daemon goes
// away: others in the sandbox may have stopped it.
func (c *conn) awaitTool(tool *child) {
	timer := time.NewTicker(goneCheck)
	defer timer.Stop()
	for {
		select {
		case <-tool.exited:
			return
		case <-c.r.closing:
			tool.signal(unix.SIGKILL)
			<-tool.exited
			return
		case <-timer.C:
			if c.gone() {
				tool.signal(unix.SIGKILL)
			}
		}
	}
}
