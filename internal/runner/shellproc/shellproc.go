// Package shellproc is one process of a shell and what connects to it: the pipes
// on which it gets its script, reports and writes output, and the files with what
// it is to run. What runs when, and what becomes of it, is decided elsewhere.
package shellproc

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/runner/child"
	"github.com/sandkasten/sandkasten/internal/runner/dialect"
	"github.com/sandkasten/sandkasten/internal/runner/fds"
	"github.com/sandkasten/sandkasten/internal/runner/pipe"
	"github.com/sandkasten/sandkasten/internal/spawn"
)

// Proc is one process of a shell, with everything that connects to it.
// Its methods are called by one goroutine at a time, except Ring.
type Proc struct {
	*child.Child
	Stdin   fds.Memory                     // what the next command is to read
	Source  *pipe.Source                   // from which it reads if its stdin is open
	Outs    [dialect.OutPipes]*pipe.Output // of which Pick chooses one for a command
	Own     *pipe.Output                   // of what the shell writes before and behind the redirections of a command
	Garbled bool                           // somebody wrote nonsense to the status pipe

	proc    string // where procfs is mounted
	script  int    // written with commands
	text    fds.Memory
	state   int // memory file in which the shell leaves what a later one needs
	report  int // the status pipe; -1 when nothing more comes from it
	bell    int // an eventfd that ends a wait
	current int // index of the pipe last used

	pending []byte // of a report that is not complete
	lost    bool   // it does not die
}

// Report is what the shell reports after a command.
type Report struct {
	Seq  uint64
	Ran  bool // false: the shell could not make the redirections
	Code int
	Cwd  string
}

// Limits of what a shell tells.
const (
	maxReport = 8 << 10 // a report, which has a path in it
	maxState  = 256 << 10
)

// Options says which shell is started, and how.
type Options struct {
	Dialect dialect.Dialect
	Reaper  *child.Reaper
	Env     []string // the whole environment
	Dir     string
	Proc    string       // where procfs is mounted
	Steps   []spawn.Step // that make it whose it is
}

// Start starts a shell. The caller closes it.
func Start(o Options) (*Proc, error) {
	p := &Proc{proc: o.Proc}
	var opened fds.Set
	defer opened.Close()

	script, report := opened.Pipe(), opened.Pipe()
	null := opened.Open("/dev/null", unix.O_RDWR)
	text, stdin, state := opened.Memory("command"), opened.Memory("stdin"), opened.Memory("state")
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	bell = opened.Add(bell, "eventfd", err)
	if opened.Err != nil {
		return nil, opened.Err
	}
	// Our ends do not block; the shell's, the others, do.
	for _, fd := range []int{script[1], report[0]} {
		if err := unix.SetNonblock(fd, true); err != nil {
			return nil, os.NewSyscallError("fcntl", err)
		}
	}
	theirs := o.Dialect.FDs()
	path, args := o.Dialect.Program()
	c := &spawn.Cmd{
		Path: path, Args: args, Env: o.Env, Dir: o.Dir,
		Files: map[int]int{0: script[0], theirs.Null: null, theirs.Text: text, theirs.Stdin: stdin, theirs.State: state, theirs.Status: report[1]},
		Steps: slices.Concat([]spawn.Step{spawn.Setsid(), spawn.Umask(0o022)}, o.Steps, o.Dialect.Steps()),
	}
	if p.Source, err = pipe.NewSource(o.Proc); err != nil {
		return nil, err
	}
	c.Files[theirs.Source] = opened.Open(p.Source.Path(), unix.O_PATH) // so that only we and the command can read from it
	if err := p.openOutputs(); err != nil {
		p.closePipes()
		return nil, err
	}
	own := opened.Open(o.Proc+"/self/fd/"+strconv.Itoa(p.Own.FD()), unix.O_WRONLY)
	c.Files[1], c.Files[2] = own, own
	for i, out := range p.Outs {
		// One that cannot read, so that only we are the reader of what is
		// written there, however many processes inherit it.
		c.Files[theirs.Out[i]] = opened.Open(o.Proc+"/self/fd/"+strconv.Itoa(out.FD()), unix.O_PATH)
	}
	ch, err := (*child.Child)(nil), opened.Err
	if err == nil {
		ch, err = o.Reaper.Start(c)
	}
	if err != nil {
		p.closePipes()
		return nil, err
	}
	p.Child = ch
	p.script, p.report, p.bell = opened.Keep(script[1]), opened.Keep(report[0]), opened.Keep(bell)
	p.text.FD, p.Stdin.FD, p.state = opened.Keep(text), opened.Keep(stdin), opened.Keep(state)
	return p, nil
}

// openOutputs makes the pipes of what the shell and its commands write. They have one
// lock, because all may go to the same exec.
func (p *Proc) openOutputs() (err error) {
	mu := new(sync.Mutex)
	if p.Own, err = pipe.NewOutput(mu); err != nil {
		return err
	}
	for i := range p.Outs {
		if p.Outs[i], err = pipe.NewOutput(mu); err != nil {
			return err
		}
	}
	return nil
}

// Kill kills the process and waits for its end. If that does not come, in the
// hands of a tracer for instance, the process is given up.
func (p *Proc) Kill() {
	p.Signal(unix.SIGKILL)
	if !p.lost {
		p.lost = !p.AwaitDeath()
	}
}

// Dead reports whether the process has ended or was given up.
func (p *Proc) Dead() bool { return p.lost || p.Child.Dead() }

// Close kills the process if it still lives and frees everything. What it left
// running is not touched.
func (p *Proc) Close() {
	p.Kill()
	p.Release()
	p.deafen()
	for _, fd := range []int{p.script, p.bell, p.text.FD, p.Stdin.FD, p.state} {
		fds.Close(fd)
	}
	p.closePipes()
}

func (p *Proc) closePipes() {
	p.Source.Close()
	for _, out := range append(p.Outs[:], p.Own) {
		if out != nil {
			out.Close()
		}
	}
}

// Saved returns what the shell left for the next one: a script, and whether
// that knows the directory. It returns nil if the shell left nothing usable.
func (p *Proc) Saved() (script []byte, dir bool) {
	buf := make([]byte, maxState)
	n, err := unix.Pread(p.state, buf, 0)
	if err != nil || n == len(buf) {
		return nil, false
	}
	dir = bytes.HasSuffix(buf[:n], []byte(dialect.ExitEnd))
	if !dir && !bytes.HasSuffix(buf[:n], []byte(dialect.StateEnd)) {
		return nil, false
	}
	return bytes.Clone(buf[:n]), dir
}

// Order writes a line to the shell, with what its text file must hold for it.
func (p *Proc) Order(line, file []byte) error {
	store := p.text.Fill
	if bytes.HasSuffix(file, []byte{0}) {
		store = p.text.Put
	}
	if file != nil {
		if err := store(file); err != nil {
			return err
		}
	}
	return p.Send(line)
}

// Send hands a line to the shell, which must be waiting for one.
func (p *Proc) Send(line []byte) error {
	n, err := unix.Write(p.script, line)
	if err != nil {
		return os.NewSyscallError("write", err)
	}
	if n < len(line) {
		return errors.New("the shell does not read its script")
	}
	return nil
}

// Unread returns how much of its script the shell has not read.
func (p *Proc) Unread() int {
	n, err := unix.IoctlGetInt(p.script, unix.TIOCINQ) // FIONREAD by another name
	if err != nil {
		return 0
	}
	return n
}

// Pick chooses the pipe for the next command: the one used last if nothing
// holds it open, else another one. If background jobs hold all of them, it is
// the one that was used longest ago, and their output will be mixed in.
func (p *Proc) Pick() int {
	if protection.Off(protection.ShellOutput) {
		return p.current
	}
	for i := range dialect.OutPipes {
		k := (p.current + i) % dialect.OutPipes
		if p.Outs[k].Settle() == pipe.End {
			p.current = k
			return k
		}
	}
	p.current = (p.current + 1) % dialect.OutPipes
	return p.current
}

// Event is what ended a wait for a shell.
type Event int

// The events.
const (
	TimeUp   Event = iota // nothing happened for so long
	Reported              // there is a report
	Rung                  // somebody rang
	Written               // there is output
	Exited                // the process has ended, and so have its reports
)

// Wait waits for a report, for no longer than limit. out, unless it is nil, is
// the pipe of a command that has not written anything yet: output ends the wait
// as well. It blocks a thread and does not let the Go runtime wait, which would
// take three more threads' turns: for a short command that is most of the time.
func (p *Proc) Wait(limit time.Duration, out *pipe.Output) (Report, Event) {
	outFD := -1
	if out != nil {
		// While nobody could write to it, a pipe can always be read.
		end, err := unix.Open(p.proc+"/self/fd/"+strconv.Itoa(out.FD()), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return Report{}, TimeUp
		}
		defer fds.Close(end)
		outFD = out.FD()
	}
	deadline := time.Time{}
	for {
		if st, ok := p.next(); ok {
			return st, Reported
		}
		polled := [4]unix.PollFd{
			{Fd: int32(p.report), Events: unix.POLLIN},
			{Fd: int32(p.PidFD), Events: unix.POLLIN},
			{Fd: int32(p.bell), Events: unix.POLLIN},
			{Fd: int32(outFD), Events: unix.POLLIN},
		}
		ts := unix.NsecToTimespec(int64(max(0, limit)))
		n, err := unix.Ppoll(polled[:], &ts, nil)
		switch {
		case polled[0].Revents != 0:
			p.receive()
		case polled[1].Revents != 0:
			return Report{}, Exited
		case polled[2].Revents != 0:
			return Report{}, Rung
		case polled[3].Revents != 0:
			return Report{}, Written
		case n == 0 && err == nil:
			return Report{}, TimeUp
		}
		// Only what takes several rounds has to know the time.
		now := time.Now()
		if deadline.IsZero() {
			deadline = now.Add(limit)
		}
		limit = deadline.Sub(now)
	}
}

// Ring ends a wait with Rung. It may be called at any time before close.
func (p *Proc) Ring() {
	one := [8]byte{1}
	if _, err := unix.Write(p.bell, one[:]); err != nil {
		return // it has been rung often enough
	}
}

// Hush undoes ring.
func (p *Proc) Hush() {
	var n [8]byte
	if _, err := unix.Read(p.bell, n[:]); err != nil {
		return // it was not rung
	}
}

// receive reads what there is on the status pipe. A report that is too long or
// makes no sense ends it: the shell is then replaced.
func (p *Proc) receive() {
	var buf [512]byte
	n, err := unix.Read(p.report, buf[:])
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
	case err != nil || n == 0:
		p.deafen()
	case len(p.pending)+n > maxReport:
		p.garble()
	default:
		p.pending = append(p.pending, buf[:n]...)
	}
}

// deafen stops listening to the status pipe. The shell ended, or became
// another program.
func (p *Proc) deafen() {
	if p.report >= 0 {
		fds.Close(p.report)
		p.report = -1
	}
}

func (p *Proc) garble() {
	p.Garbled = true
	p.pending = nil
	p.deafen()
}

// next takes the first complete report.
func (p *Proc) next() (Report, bool) {
	report, rest, found := bytes.Cut(p.pending, []byte{0})
	if !found {
		return Report{}, false
	}
	st, ok := parseReport(report)
	if !ok {
		p.garble()
		return Report{}, false
	}
	p.pending = append(p.pending[:0], rest...)
	return st, true
}

// parseReport reads "SEQ- CODE DIRECTORY", where the dash is missing if nothing
// was run, or an equals sign if a newline follows the directory.
func parseReport(report []byte) (Report, bool) {
	first, rest, ok1 := bytes.Cut(report, []byte{' '})
	second, cwd, ok2 := bytes.Cut(rest, []byte{' '})
	first, ran := bytes.CutSuffix(first, []byte{'-'})
	if line, ok := bytes.CutSuffix(first, []byte{'='}); ok {
		first, ran, cwd = line, true, bytes.TrimSuffix(cwd, []byte{'\n'})
	}
	seq, err1 := strconv.ParseUint(string(first), 10, 64)
	code, err2 := strconv.Atoi(string(second))
	if !ok1 || !ok2 || err1 != nil || err2 != nil || code < 0 || code > 255 {
		return Report{}, false
	}
	return Report{Seq: seq, Ran: ran, Code: code, Cwd: string(cwd)}, true
}
