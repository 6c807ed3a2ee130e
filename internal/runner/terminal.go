package runner

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/spawn"
	"github.com/sandkasten/sandkasten/protocol"
)

// Times of a terminal.
const (
	hangupTime = 2 * time.Second        // between the hangup and KILL
	tailTime   = 100 * time.Millisecond // for the last output after the exit
	pasteTime  = time.Second            // between looks at whether the daemon is still there
)

// terminal is a program on a PTY. It uses its connection up: when the program
// has ended the runner closes it, because the daemon may have sent more keys.
type terminal struct {
	c      *conn
	child  *child
	master *os.File

	mu  sync.Mutex       // serialises frames to the daemon
	out *protocol.Writer // guarded by mu
}

// terminal serves one terminal from its start to its end.
func (c *conn) terminal(req protocol.Terminal, _ int64) error {
	if err := c.r.takeTerminal(); err != nil {
		return err
	}
	defer c.r.giveTerminal()
	t, err := c.openTerminal(req)
	if err != nil {
		return err
	}
	started := time.Now()
	var wg sync.WaitGroup
	wg.Go(t.sendOutput)
	wg.Go(func() {
		// The end of the program ends the wait for keys below.
		select {
		case <-t.child.exited:
		case <-c.r.closing:
		}
		if err := c.file.SetReadDeadline(time.Now()); err != nil {
			return // the connection is closed already
		}
	})
	t.receive()
	t.hangUp()
	wg.Wait()
	t.free()
	rec := protocol.Record{
		ID: req.ID, State: protocol.StateEnded, Cause: protocol.CauseExited,
		ExitCode: exitCode(t.child.status), StartedUnixMS: started.UnixMilli(), DurationUS: time.Since(started).Microseconds(),
	}
	if t.child.status.Signaled() {
		rec.Cause, rec.Signal = protocol.CauseSignaled, int(t.child.status.Signal())
	}
	if err := t.send(protocol.TypeExit, rec, nil); err != nil {
		return errors.Join(errBroken, err)
	}
	return errBroken
}

func (r *Runner) takeTerminal() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.terms >= maxTerms {
		return protocol.Refuse(protocol.CodeExhausted, "the sandbox has %d terminals, which is the limit; close one", maxTerms)
	}
	r.terms++
	return nil
}

func (r *Runner) giveTerminal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.terms--
}

// openTerminal starts the program on a new PTY.
func (c *conn) openTerminal(req protocol.Terminal) (*terminal, error) {
	if !validName(req.ID) {
		return nil, protocol.Refuse(protocol.CodeInvalid, "id must be at most %d of the characters a-z A-Z 0-9 . _ -", maxIDLen)
	}
	env, err := mergeEnv(c.r.opts.Env, req.Env)
	if err != nil {
		return nil, err
	}
	master, slave, err := openPTY(req.Rows, req.Cols)
	if err != nil {
		return nil, protocol.Refuse(protocol.CodeUnavailable, "a terminal cannot be opened in the sandbox (%v)", err)
	}
	defer closeFD(slave)
	cmd := &spawn.Cmd{
		Env: env, Dir: c.r.opts.Workspace,
		Files: map[int]int{0: slave, 1: slave, 2: slave},
		Steps: []spawn.Step{spawn.Setsid(), umask()},
		Final: []spawn.Step{spawn.SetCtty(0)},
	}
	cmd.Path, cmd.Args, err = c.r.terminalProgram(req.Command, env)
	if err == nil {
		var ch *child
		if ch, err = c.r.reaper.start(cmd); err == nil {
			return &terminal{c: c, child: ch, master: os.NewFile(uintptr(master), "terminal"), out: c.out}, nil
		}
		err = protocol.Refuse(protocol.CodeUnavailable, "%s cannot be started (%v)", cmd.Path, err)
	}
	closeFD(master)
	return nil, err
}

// terminalProgram finds what to run: a login shell, or command, which is
// looked up in the PATH of env.
func (r *Runner) terminalProgram(command, env []string) (string, []string, error) {
	if len(command) == 0 {
		shell, _ := r.dialect.program()
		return shell, []string{"-" + shell[strings.LastIndexByte(shell, '/')+1:]}, nil
	}
	for _, arg := range command {
		if strings.IndexByte(arg, 0) >= 0 {
			return "", nil, protocol.Refuse(protocol.CodeInvalid, "command must not contain zero bytes")
		}
	}
	name := command[0]
	if strings.Contains(name, "/") {
		return name, command, nil
	}
	for _, kv := range env {
		list, ok := strings.CutPrefix(kv, "PATH=")
		if !ok {
			continue
		}
		for dir := range strings.SplitSeq(list, ":") {
			if path := dir + "/" + name; name != "" && strings.HasPrefix(dir, "/") && unix.Access(path, unix.X_OK) == nil {
				return path, command, nil
			}
		}
	}
	return "", nil, protocol.Refuse(protocol.CodeNotFound, "no program %q in the sandbox's PATH", name)
}

// mergeEnv returns base with extra's variables set.
func mergeEnv(base []string, extra map[string]string) ([]string, error) {
	env := slices.Clone(base)
	names := make([]string, 0, len(extra))
	for name, value := range extra {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.IndexByte(value, 0) >= 0 {
			return nil, protocol.Refuse(protocol.CodeInvalid, "env has a name or value that no environment can hold: %q", name)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		env = slices.DeleteFunc(env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
		env = append(env, name+"="+extra[name])
	}
	return env, nil
}

// openPTY makes a terminal in the devpts of this mount namespace. The slave is
// opened through the master: a path in /dev could be anything by now.
func openPTY(rows, cols uint16) (master, slave int, err error) {
	var set fdSet
	defer set.close()
	m := set.open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK)
	if set.err != nil {
		return -1, -1, set.err
	}
	if err := unix.IoctlSetPointerInt(m, unix.TIOCSPTLCK, 0); err != nil {
		return -1, -1, os.NewSyscallError("ioctl TIOCSPTLCK", err)
	}
	s, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(m), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return -1, -1, os.NewSyscallError("ioctl TIOCGPTPEER", errno)
	}
	if err := setSize(m, rows, cols); err != nil {
		closeFD(int(s))
		return -1, -1, err
	}
	return set.keep(m), int(s), nil
}

func setSize(fd int, rows, cols uint16) error {
	if rows == 0 || cols == 0 {
		rows, cols = 24, 80
	}
	err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	return os.NewSyscallError("ioctl TIOCSWINSZ", err)
}

func (t *terminal) send(typ protocol.Type, body any, payload []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.out.Send(typ, body, payload)
}

// sendOutput passes on what the terminal prints until nothing has it open any
// more, or the master is closed, or the daemon is gone.
func (t *terminal) sendOutput() {
	buf := make([]byte, 8<<10)
	for {
		n, err := t.master.Read(buf)
		if n > 0 && t.send(protocol.TypeData, nil, buf[:n]) != nil {
			t.c.hangUp()
			return
		}
		if err != nil {
			return
		}
	}
}

// receive takes keys and sizes from the daemon until it goes away or the
// program ends.
func (t *terminal) receive() {
	for {
		h, err := t.c.in.Next()
		if err != nil {
			return
		}
		switch h.Type {
		case protocol.TypeData:
			if t.paste() != nil {
				return
			}
		case protocol.TypeResize:
			var size protocol.Resize
			if h.Decode(&size) != nil || t.resize(size) != nil {
				return
			}
		default:
			return // not a terminal's
		}
	}
}

func (t *terminal) resize(size protocol.Resize) error {
	raw, err := t.master.SyscallConn()
	if err != nil {
		return err
	}
	var serr error
	err = raw.Control(func(fd uintptr) { serr = setSize(int(fd), size.Rows, size.Cols) })
	return errors.Join(err, serr)
}

// paste writes a frame's payload to the terminal. A program that does not read
// makes it wait, which must not keep a dead connection alive.
func (t *terminal) paste() error {
	buf := make([]byte, 4<<10)
	for {
		n, err := t.c.in.Read(buf)
		for b := buf[:n]; len(b) > 0; {
			if err := t.master.SetWriteDeadline(time.Now().Add(pasteTime)); err != nil {
				return err
			}
			m, err := t.master.Write(b)
			b = b[m:]
			if err != nil && (!errors.Is(err, os.ErrDeadlineExceeded) || t.c.gone() || t.child.dead()) {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// free gives back what the terminal holds once its program has ended.
func (t *terminal) free() {
	t.child.release()
	if err := t.master.Close(); err != nil {
		return // hangUp closed it
	}
}

// hangUp ends the terminal. Closing the master is what pulling the plug was:
// the kernel sends HUP to the session's leader and its foreground job.
func (t *terminal) hangUp() {
	if t.child.dead() {
		// What it printed last is still to be read; what it left behind may
		// keep the terminal open for ever.
		if err := t.master.SetReadDeadline(time.Now().Add(tailTime)); err != nil {
			return
		}
		return
	}
	if err := t.master.Close(); err != nil {
		return
	}
	select {
	case <-t.child.exited:
	case <-time.After(hangupTime):
		t.child.signal(unix.SIGKILL)
		<-t.child.exited
	}
}
