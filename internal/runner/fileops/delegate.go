package fileops

import (
	"errors"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/spawn"
	"github.com/sandkasten/sandkasten/protocol"
)

// Tool starts processes of the sandbox that answer one request each.
type Tool struct {
	Program   int // open, and calls RunTool with its arguments
	Workspace string
	Start     func(*spawn.Cmd) (Process, error)
	Stop      <-chan struct{} // closed when all is to end
}

// Process is a tool that runs. Release must be called after its end.
type Process interface {
	Exited() <-chan struct{} // closed when it has ended
	Status() unix.WaitStatus // after that
	Signal(unix.Signal)
	Release()
}

// Answer has a tool answer the request h, on the same connection, and waits
// for its end. The daemon is told so before: what has had the connection in the
// sandbox is to get no other request. Its errors are like those of Conn.Answer.
func (t Tool) Answer(c *Conn, h protocol.Header) error {
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	began, announce, err := os.Pipe()
	if err != nil {
		return err
	}
	defer began.Close()
	defer announce.Close()
	if err := c.Out.Send(protocol.TypeLent, nil, nil); err != nil {
		return err
	}
	frame, rest, err := c.In.Surrender(h)
	if err != nil {
		return err
	}
	request, err := memory(frame)
	if err != nil {
		return err
	}
	defer request.Close()
	p, err := t.Start(&spawn.Cmd{
		ExecFD: t.Program,
		Args:   []string{ToolName, t.Workspace, strconv.FormatInt(rest, 10)},
		Env:    protection.Environ(),
		Files: map[int]int{
			0: int(null.Fd()), 1: int(null.Fd()), 2: int(null.Fd()),
			connFD: c.FD, requestFD: int(request.Fd()), beganFD: int(announce.Fd()),
		},
	})
	if err != nil {
		c.In.Reclaim(rest) // to be discarded
		return noTool(err)
	}
	defer p.Release()
	t.await(c, p)
	if ws := p.Status(); ws.Exited() && ws.ExitStatus() == 0 {
		return nil
	}
	err = errBroken
	if !readable(began) {
		refusal := protocol.Refuse(protocol.CodeExhausted, "the sandbox ended the work on its files, perhaps for want of memory; what was done so far stays")
		err = errors.Join(err, c.Out.Send(protocol.TypeError, refusal, nil))
	}
	return err
}

// memory returns a file in memory with that content, to be read from its start.
func memory(content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("request", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "request")
	if _, err := f.WriteAt(content, 0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// readable reports whether there is anything in a pipe.
func readable(pipe *os.File) bool {
	p := []unix.PollFd{{Fd: int32(pipe.Fd()), Events: unix.POLLIN}}
	n, err := unix.Poll(p, 0)
	return err == nil && n > 0 && p[0].Revents&unix.POLLIN != 0
}

// noTool explains why a tool could not be started. What the sandbox has too
// little of is its user's matter.
func noTool(err error) error {
	if refusal, ok := errors.AsType[*protocol.Error](err); ok {
		return refusal
	}
	for _, short := range []error{unix.EAGAIN, unix.ENOMEM, unix.EMFILE, unix.ENFILE} {
		if errors.Is(err, short) {
			return protocol.Refuse(protocol.CodeExhausted, "the sandbox has no process or memory left for this; end some of its programs")
		}
	}
	return protocol.Refuse(protocol.CodeUnavailable, "the sandbox cannot start a process for this: %v", err)
}

// goneCheck is how often the connection of a tool is looked at.
const goneCheck = time.Second

// await returns when the tool has ended. It is killed when the daemon goes
// away: others in the sandbox may have stopped it.
func (t Tool) await(c *Conn, p Process) {
	ticker := time.NewTicker(goneCheck)
	defer ticker.Stop()
	for {
		select {
		case <-p.Exited():
			return
		case <-t.Stop:
			p.Signal(unix.SIGKILL)
			<-p.Exited()
			return
		case <-ticker.C:
			if Gone(c.FD) {
				p.Signal(unix.SIGKILL)
			}
		}
	}
}
