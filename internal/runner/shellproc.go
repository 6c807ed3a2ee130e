package runner

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/spawn"
)

// shellProc is one process of a shell, with everything that connects to it.
type shellProc struct {
	*child
	dialect dialect
	script  int // written with commands
	text    int // memory file for a command
	stdin   int // memory file for a command's stdin
	outs    [outPipes]*outPipe
	current int // index of the pipe last used

	statusFile *os.File
	statuses   chan status   // closed when the status pipe is, or is of no more use
	garbled    atomic.Bool   // somebody wrote nonsense to the status pipe
	quit       chan struct{} // closed by close

	wg sync.WaitGroup
}

// status is what the shell reports after a command.
type status struct {
	seq  uint64
	ran  bool // false: the shell could not make the redirections
	code int
	text []byte // the working directory, or what was asked for
}

// maxStatus bounds one report of a shell.
const maxStatus = 256 << 10

// startShell starts a shell in dir. The caller closes it.
func (r *Runner) startShell(dir string) (*shellProc, error) {
	p := &shellProc{dialect: r.dialect, statuses: make(chan status, 1), quit: make(chan struct{})}
	var opened fdSet
	defer opened.close()

	script := opened.pipe()
	report := opened.pipe()
	null := opened.open("/dev/null", unix.O_RDWR)
	text := opened.memory("command")
	stdin := opened.memory("stdin")
	if opened.err != nil {
		return nil, opened.err
	}
	// Our ends do not block; the shell's, the others, do.
	for _, fd := range []int{script[1], report[0]} {
		if err := unix.SetNonblock(fd, true); err != nil {
			return nil, os.NewSyscallError("fcntl", err)
		}
	}
	fds := r.dialect.fds()
	path, args := r.dialect.program()
	c := &spawn.Cmd{
		Path: path, Args: args, Env: r.opts.Env, Dir: dir,
		Files: map[int]int{0: script[0], 1: null, 2: null, fds.null: null, fds.text: text, fds.stdin: stdin, fds.status: report[1]},
		Steps: append([]spawn.Step{spawn.Setsid(), umask()}, r.dialect.steps()...),
	}
	for i := range p.outs {
		out, err := newOutPipe()
		if err != nil {
			p.closePipes()
			return nil, err
		}
		p.outs[i] = out
		c.Files[fds.out[i]] = out.fd
	}
	ch, err := r.reaper.start(c)
	if err != nil {
		p.closePipes()
		return nil, err
	}
	p.child = ch
	p.script, p.text, p.stdin = opened.keep(script[1]), opened.keep(text), opened.keep(stdin)
	p.statusFile = os.NewFile(uintptr(opened.keep(report[0])), "status")
	p.wg.Go(p.listen)
	for _, out := range p.outs {
		p.wg.Go(out.pump)
	}
	return p, nil
}

// umask makes the mode of new files independent of the runner's.
func umask() spawn.Step {
	return spawn.Step{Name: "umask", Nr: unix.SYS_UMASK, Args: [6]uintptr{0o022}}
}

// close kills the process if it still lives, waits for its end and frees
// everything. What it left running is not touched.
func (p *shellProc) close() {
	p.signal(unix.SIGKILL)
	p.await(deathTime)
	p.release()
	close(p.quit)
	closeFD(p.script)
	closeFD(p.text)
	closeFD(p.stdin)
	p.closePipes()
	if err := p.statusFile.Close(); err != nil {
		return // it was closed before, which does not happen
	}
	p.wg.Wait()
}

func (p *shellProc) closePipes() {
	for _, out := range p.outs {
		if out != nil {
			if err := out.close(); err != nil {
				return
			}
		}
	}
}

// send hands a line to the shell, which must be waiting for one.
func (p *shellProc) send(line []byte) error {
	n, err := unix.Write(p.script, line)
	if err != nil {
		return os.NewSyscallError("write", err)
	}
	if n < len(line) {
		return errors.New("the shell does not read its script")
	}
	return nil
}

// unread returns how much of its script the shell has not read.
func (p *shellProc) unread() int {
	n, err := unix.IoctlGetInt(p.script, unix.TIOCINQ) // FIONREAD by another name
	if err != nil {
		return 0
	}
	return n
}

// fill makes text the content of one of the shell's memory files.
func fill(fd int, text []byte) error {
	if err := unix.Ftruncate(fd, 0); err != nil {
		return os.NewSyscallError("ftruncate", err)
	}
	for at := int64(0); len(text) > 0; {
		n, err := unix.Pwrite(fd, text, at)
		if err != nil {
			return os.NewSyscallError("pwrite", err)
		}
		text, at = text[n:], at+int64(n)
	}
	return nil
}

// pick chooses the pipe for the next command: the one used last if nothing
// holds it open, else another one. If background jobs hold all of them, it is
// the one that was used longest ago, and their output will be mixed in.
func (p *shellProc) pick() int {
	for i := range outPipes {
		k := (p.current + i) % outPipes
		if p.outs[k].settle() == flowEnd {
			p.current = k
			return k
		}
	}
	p.current = (p.current + 1) % outPipes
	return p.current
}

// listen passes the shell's reports on until the status pipe ends, which it
// tells by closing statuses. A report that is too long or makes no sense ends
// it, too: the shell is then replaced.
func (p *shellProc) listen() {
	defer close(p.statuses)
	var pending []byte
	buf := make([]byte, 512)
	for {
		n, err := p.statusFile.Read(buf)
		if err != nil {
			return
		}
		pending = append(pending, buf[:n]...)
		for {
			report, rest, found := bytes.Cut(pending, []byte{0})
			if !found {
				break
			}
			st, ok := parseStatus(report)
			if !ok {
				p.garbled.Store(true)
				return
			}
			select {
			case p.statuses <- st:
			case <-p.quit:
				return
			}
			pending = append(pending[:0], rest...)
		}
		if len(pending) > maxStatus {
			p.garbled.Store(true)
			return
		}
		if len(pending) == 0 && cap(pending) > 4096 {
			pending = nil
		}
		if len(pending) == len(buf) && len(buf) < 32<<10 {
			buf = make([]byte, 32<<10) // a long report: the variables
		}
	}
}

// parseStatus reads "SEQ- CODE TEXT", where the dash is missing if nothing was
// run and the text ends with a newline if it is a working directory.
func parseStatus(report []byte) (status, bool) {
	first, rest, ok1 := bytes.Cut(report, []byte{' '})
	second, text, ok2 := bytes.Cut(rest, []byte{' '})
	first, ran := bytes.CutSuffix(first, []byte{'-'})
	seq, err1 := strconv.ParseUint(string(first), 10, 64)
	code, err2 := strconv.Atoi(string(second))
	if !ok1 || !ok2 || err1 != nil || err2 != nil || code < 0 || code > 255 {
		return status{}, false
	}
	return status{seq: seq, ran: ran, code: code, text: bytes.Clone(bytes.TrimSuffix(text, []byte{'\n'}))}, true
}

// fdSet opens descriptors and closes all that are not kept. After the first
// error it opens nothing more.
type fdSet struct {
	fds []int
	err error
}

func (s *fdSet) add(fd int, call string, err error) int {
	if err != nil {
		s.err = os.NewSyscallError(call, err)
		return -1
	}
	s.fds = append(s.fds, fd)
	return fd
}

func (s *fdSet) pipe() [2]int {
	var p [2]int
	if s.err == nil {
		err := unix.Pipe2(p[:], unix.O_CLOEXEC)
		s.add(p[0], "pipe2", err)
		if err == nil {
			s.add(p[1], "pipe2", nil)
		}
	}
	return p
}

func (s *fdSet) open(path string, flags int) int {
	if s.err != nil {
		return -1
	}
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
	return s.add(fd, "open "+path, err)
}

func (s *fdSet) memory(name string) int {
	if s.err != nil {
		return -1
	}
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	return s.add(fd, "memfd_create", err)
}

// keep takes fd out of the set.
func (s *fdSet) keep(fd int) int {
	for i, have := range s.fds {
		if have == fd {
			s.fds = append(s.fds[:i], s.fds[i+1:]...)
			break
		}
	}
	return fd
}

func (s *fdSet) close() {
	for _, fd := range s.fds {
		closeFD(fd)
	}
}
