package runner

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/spawn"
)

// shellProc is one process of a shell, with everything that connects to it.
// Its methods are called by one goroutine at a time, except alarm.
type shellProc struct {
	*child
	dialect dialect
	script  int // written with commands
	text    memFile
	stdin   memFile
	state   int // memory file in which the shell leaves what a later one needs
	report  int // the status pipe; -1 when nothing more comes from it
	bell    int // an eventfd that ends a wait
	outs    [outPipes]*outPipe
	current int // index of the pipe last used

	pending []byte // of a report that is not complete
	lost    bool   // it does not die
	garbled bool   // somebody wrote nonsense to the status pipe
}

// status is what the shell reports after a command.
type status struct {
	seq  uint64
	ran  bool // false: the shell could not make the redirections
	code int
	cwd  string
}

// Limits of what a shell tells.
const (
	maxStatus = 8 << 10 // a report, which has a path in it
	maxState  = 256 << 10
)

// startShell starts a shell in dir. The caller closes it.
func (r *Runner) startShell(dir string) (*shellProc, error) {
	p := &shellProc{dialect: r.dialect}
	var opened fdSet
	defer opened.close()

	script, report := opened.pipe(), opened.pipe()
	null := opened.open("/dev/null", unix.O_RDWR)
	text, stdin, state := opened.memory("command"), opened.memory("stdin"), opened.memory("state")
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	bell = opened.add(bell, "eventfd", err)
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
		Files: map[int]int{0: script[0], 1: null, 2: null, fds.text: text, fds.stdin: stdin, fds.state: state, fds.status: report[1]},
		Steps: append([]spawn.Step{spawn.Setsid(), umask()}, r.dialect.steps()...),
	}
	for i := range p.outs {
		out, err := newOutPipe()
		if err != nil {
			p.closePipes()
			return nil, err
		}
		p.outs[i] = out
		// One that cannot read, so that only we are the reader of what is
		// written there, however many processes inherit it.
		c.Files[fds.out[i]] = opened.open(r.opts.Proc+"/self/fd/"+strconv.Itoa(out.fd), unix.O_PATH)
	}
	ch, err := (*child)(nil), opened.err
	if err == nil {
		ch, err = r.reaper.start(c)
	}
	if err != nil {
		p.closePipes()
		return nil, err
	}
	p.child = ch
	p.script, p.report, p.bell = opened.keep(script[1]), opened.keep(report[0]), opened.keep(bell)
	p.text.fd, p.stdin.fd, p.state = opened.keep(text), opened.keep(stdin), opened.keep(state)
	return p, nil
}

// umask makes the mode of new files independent of the runner's.
func umask() spawn.Step {
	return spawn.Step{Name: "umask", Nr: unix.SYS_UMASK, Args: [6]uintptr{0o022}}
}

// kill kills the process and waits for its end. If that does not come, in the
// hands of a tracer for instance, the process is given up.
func (p *shellProc) kill() {
	p.signal(unix.SIGKILL)
	if !p.lost {
		p.lost = !p.awaitDeath()
	}
}

// dead reports whether the process has ended or was given up.
func (p *shellProc) dead() bool { return p.lost || p.child.dead() }

// close kills the process if it still lives and frees everything. What it left
// running is not touched.
func (p *shellProc) close() {
	p.kill()
	p.release()
	p.deafen()
	for _, fd := range []int{p.script, p.bell, p.text.fd, p.stdin.fd, p.state} {
		closeFD(fd)
	}
	p.closePipes()
}

func (p *shellProc) closePipes() {
	for _, out := range p.outs {
		if out != nil {
			out.close()
		}
	}
}

// saved returns what the shell left for the next one: a script, and whether
// that knows the directory. It returns nil if the shell left nothing usable.
func (p *shellProc) saved() (script []byte, dir bool) {
	buf := make([]byte, maxState)
	n, err := unix.Pread(p.state, buf, 0)
	if err != nil || n == len(buf) {
		return nil, false
	}
	dir = bytes.HasSuffix(buf[:n], []byte(exitEnd))
	if !dir && !bytes.HasSuffix(buf[:n], []byte(stateEnd)) {
		return nil, false
	}
	return bytes.Clone(buf[:n]), dir
}

// order writes a line to the shell, with what its text file must hold for it.
func (p *shellProc) order(line, file []byte) error {
	store := p.text.fill
	if bytes.HasSuffix(file, []byte{0}) {
		store = p.text.put
	}
	if file != nil {
		if err := store(file); err != nil {
			return err
		}
	}
	return p.send(line)
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

// memFile is one of a shell's memory files.
type memFile struct {
	fd   int
	size int // more than what was written last may be in it
}

// roomy is how much memory a file may keep for the next text.
const roomy = 16 << 10

// put makes text the beginning of the file, which saves giving the memory back
// and taking it again.
func (f *memFile) put(text []byte) error {
	if f.size > roomy {
		return f.fill(text)
	}
	f.size = max(f.size, len(text))
	return f.write(text)
}

// fill makes text the whole content of the file.
func (f *memFile) fill(text []byte) error {
	if err := unix.Ftruncate(f.fd, 0); err != nil {
		return os.NewSyscallError("ftruncate", err)
	}
	f.size = len(text)
	return f.write(text)
}

func (f *memFile) write(text []byte) error {
	for at := int64(0); len(text) > 0; {
		n, err := unix.Pwrite(f.fd, text, at)
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

// event is what ended a wait for a shell.
type event int

const (
	eventTime   event = iota // nothing happened for so long
	eventReport              // there is a report
	eventBell                // somebody rang
	eventExit                // the process has ended, and so have its reports
)

// wait waits for a report, for no longer than limit. It blocks a thread and
// does not let the Go runtime wait, which would take three more threads' turns:
// for a short command that is most of the time.
func (p *shellProc) wait(limit time.Duration) (status, event) {
	deadline := time.Time{}
	for {
		if st, ok := p.next(); ok {
			return st, eventReport
		}
		fds := [3]unix.PollFd{
			{Fd: int32(p.report), Events: unix.POLLIN}, {Fd: int32(p.pidfd), Events: unix.POLLIN}, {Fd: int32(p.bell), Events: unix.POLLIN},
		}
		ts := unix.NsecToTimespec(int64(max(0, limit)))
		n, err := unix.Ppoll(fds[:], &ts, nil)
		switch {
		case fds[0].Revents != 0:
			p.receive()
		case fds[1].Revents != 0:
			return status{}, eventExit
		case fds[2].Revents != 0:
			return status{}, eventBell
		case n == 0 && err == nil:
			return status{}, eventTime
		}
		// Only what takes several rounds has to know the time.
		now := time.Now()
		if deadline.IsZero() {
			deadline = now.Add(limit)
		}
		limit = deadline.Sub(now)
	}
}

// ring ends a wait with eventBell. It may be called at any time before close.
func (p *shellProc) ring() {
	one := [8]byte{1}
	if _, err := unix.Write(p.bell, one[:]); err != nil {
		return // it has been rung often enough
	}
}

// hush undoes ring.
func (p *shellProc) hush() {
	var n [8]byte
	if _, err := unix.Read(p.bell, n[:]); err != nil {
		return // it was not rung
	}
}

// receive reads what there is on the status pipe. A report that is too long or
// makes no sense ends it: the shell is then replaced.
func (p *shellProc) receive() {
	var buf [512]byte
	n, err := unix.Read(p.report, buf[:])
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
	case err != nil || n == 0:
		p.deafen()
	case len(p.pending)+n > maxStatus:
		p.garble()
	default:
		p.pending = append(p.pending, buf[:n]...)
	}
}

// deafen stops listening to the status pipe. The shell ended, or became
// another program.
func (p *shellProc) deafen() {
	if p.report >= 0 {
		closeFD(p.report)
		p.report = -1
	}
}

func (p *shellProc) garble() {
	p.garbled = true
	p.pending = nil
	p.deafen()
}

// next takes the first complete report.
func (p *shellProc) next() (status, bool) {
	report, rest, found := bytes.Cut(p.pending, []byte{0})
	if !found {
		return status{}, false
	}
	st, ok := parseStatus(report)
	if !ok {
		p.garble()
		return status{}, false
	}
	p.pending = append(p.pending[:0], rest...)
	return st, true
}

// parseStatus reads "SEQ- CODE DIRECTORY", where the dash is missing if nothing
// was run, or an equals sign if a newline follows the directory.
func parseStatus(report []byte) (status, bool) {
	first, rest, ok1 := bytes.Cut(report, []byte{' '})
	second, cwd, ok2 := bytes.Cut(rest, []byte{' '})
	first, ran := bytes.CutSuffix(first, []byte{'-'})
	if line, ok := bytes.CutSuffix(first, []byte{'='}); ok {
		first, ran, cwd = line, true, bytes.TrimSuffix(cwd, []byte{'\n'})
	}
	seq, err1 := strconv.ParseUint(string(first), 10, 64)
	code, err2 := strconv.Atoi(string(second))
	if !ok1 || !ok2 || err1 != nil || err2 != nil || code < 0 || code > 255 {
		return status{}, false
	}
	return status{seq: seq, ran: ran, code: code, cwd: string(cwd)}, true
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
