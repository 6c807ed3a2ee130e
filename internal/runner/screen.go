package runner

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/fds"
	"github.com/sandkasten/sandkasten/internal/spawn"
	"github.com/sandkasten/sandkasten/protocol"
)

// openScreen gives the program a terminal of the devpts of this mount
// namespace. The program's end is opened through the other: a path in /dev
// could be anything by now.
func (p *program) openScreen(cmd *spawn.Cmd, theirs *fds.Set) error {
	m := theirs.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK)
	if theirs.Err != nil {
		return theirs.Err
	}
	if err := unix.IoctlSetPointerInt(m, unix.TIOCSPTLCK, 0); err != nil {
		return os.NewSyscallError("ioctl TIOCSPTLCK", err)
	}
	s, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(m), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return os.NewSyscallError("ioctl TIOCGPTPEER", errno)
	}
	slave := theirs.Add(int(s), "", nil)
	if err := errors.Join(setSize(m, p.start.Rows, p.start.Cols), p.own(slave)); err != nil {
		return err
	}
	if err := p.addPipe(theirs.Keep(m), protocol.StreamOutput); err != nil {
		return err
	}
	if _, err := p.pipes[0].Watch(); err != nil {
		return err
	}
	p.stdin = p.pipes[0].Input()
	cmd.Files = map[int]int{0: slave, 1: slave, 2: slave}
	cmd.Final = []spawn.Step{spawn.SetCtty(0)}
	return nil
}

func setSize(fd int, rows, cols uint16) error {
	if rows == 0 || cols == 0 {
		rows, cols = 24, 80
	}
	err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	return os.NewSyscallError("ioctl TIOCSWINSZ", err)
}

// resize tells the program of a new size.
func (p *program) resize(rows, cols uint16) error {
	if !p.start.TTY {
		return protocol.Refuse(protocol.CodeConflict, "%q has no terminal; start it with tty", p.e.req.ID)
	}
	if p.pipes[0].Control(func(fd int) error { return setSize(fd, rows, cols) }) != nil {
		return errEnded(p.e.req.ID)
	}
	return nil
}

// signal sends a signal to the program's process group, or to the foreground
// job of its terminal.
func (p *program) signal(sig int) error {
	group := p.child.PID
	if p.start.TTY {
		err := p.pipes[0].Control(func(fd int) (err error) {
			group, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
			return err
		})
		if err != nil || group <= 1 {
			group = p.child.PID
		}
	}
	var err error
	if group == p.child.PID {
		err = p.child.SignalGroup(unix.Signal(sig))
	} else {
		err = unix.Kill(-group, unix.Signal(sig))
	}
	if err != nil {
		return errEnded(p.e.req.ID)
	}
	return nil
}

func errEnded(id string) error {
	return protocol.Refuse(protocol.CodeConflict, "nothing of %q runs any more", id)
}
