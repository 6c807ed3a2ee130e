package runner

import (
	"bytes"
	"os"
	"sync"
	"time"

	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/runner/dialect"
	"github.com/sandkasten/sandkasten/internal/runner/output"
	"github.com/sandkasten/sandkasten/internal/runner/shellproc"
	"github.com/sandkasten/sandkasten/protocol"
)

// shell is a persistent shell: one process after another, if commands end or
// replace it. Execs run one after another, in the order in which they came.
//
// Whoever runs an exec has the shell to itself. That is the connection of an
// exec which finds it idle, for as long as a short command takes: the answer
// to such a command passes through no other goroutine. What takes longer, and
// what had to wait, is the loop's.
type shell struct {
	r    *Runner
	name string

	face  face
	busy  bool          // guarded by face.mu; somebody has the shell to itself
	queue chan *exec    // execs that wait; only while it is busy
	turn  chan struct{} // gives the shell to the loop
	long  chan *run     // the same, with an exec that goes on

	once    sync.Once     // of closing
	closing chan struct{} // closed when the loop is to end
	ended   chan struct{} // closed when it has

	// The rest belongs to who has the shell.

	proc    *shellproc.Proc // nil while there is none
	fresh   bool            // proc took another's place and has run nothing yet
	ran     bool            // there was a proc before
	seq     uint64          // of the last order
	last    int             // exit code of the last command
	spoiled bool            // proc has a variable that is in the way of usual orders
	idle    time.Time       // end of the last command

	cwd   string // last known
	state []byte // a script, as a dead process left it for the next; see shellproc.Proc.Saved
	moved bool   // state has a later directory than cwd
}

// Times of a shell.
const (
	shortTime   = time.Millisecond      // that a connection waits for the end of its exec itself
	liveTime    = 30 * time.Microsecond // the same, once there is output that somebody looks at; enough for a shell to report
	briefTime   = 50 * time.Millisecond // that it goes on to, while there is no output
	quietTime   = 20 * time.Millisecond // after which saving the variables takes nobody's time
	setupTime   = 30 * time.Second      // for a fresh shell to come to where the last one was, on a host with much else to do
	backlogTime = 5 * time.Millisecond  // between looks at a reader that is behind
)

// newShell returns a shell that belongs to its loop, which must be started.
func newShell(r *Runner, name string) *shell {
	return &shell{
		r: r, name: name, busy: true, face: newFace(name, r.opts.Workspace),
		queue: make(chan *exec, maxQueued), turn: make(chan struct{}, 1), long: make(chan *run, 1),
		closing: make(chan struct{}), ended: make(chan struct{}),
	}
}

// submit runs e, or has it run after the execs before it.
func (s *shell) submit(e *exec) error {
	if busy, err := s.enter(e); busy || err != nil {
		return err
	}
	var long *run
	s.attempt(e, func() { long = s.brief(e) })
	if long != nil {
		s.long <- long
		return nil
	}
	s.leave()
	return nil
}

// enter takes the shell for e, or lets e wait if somebody has it.
func (s *shell) enter(e *exec) (busy bool, err error) {
	s.face.mu.Lock()
	defer s.face.mu.Unlock()
	if s.face.shut {
		return false, protocol.Refuse(protocol.CodeUnavailable, "the shell has just been closed; try again")
	}
	if busy, s.busy = s.busy, true; !busy {
		return false, nil
	}
	select {
	case s.queue <- e:
		return true, nil
	default:
		return true, protocol.Refuse(protocol.CodeExhausted, "%d execs wait for this shell, which is the limit; use another shell", maxQueued)
	}
}

// leave gives the shell to the loop if that has something to do, else to
// nobody.
func (s *shell) leave() {
	s.face.mu.Lock()
	defer s.face.mu.Unlock()
	if s.busy = len(s.queue) > 0 || s.face.shut; s.busy {
		output.Wake(s.turn)
	}
}

// loop runs the execs that take long or had to wait, until the shell is closed.
func (s *shell) loop() {
	defer s.finish()
	s.attempt(nil, s.prepare) // so that the first command finds a shell
	s.leave()
	for closing := s.closing; ; {
		select {
		case x := <-s.long:
			s.attempt(x.e, func() { s.complete(x) })
		case <-s.turn:
			if s.isClosing() { // what waits is not begun any more
				s.shutOut()
				return
			}
			e := <-s.queue
			s.attempt(e, func() { s.whole(e) })
		case <-closing:
			if !s.shutOut() {
				return
			}
			closing = nil // soon it will be the loop's turn
			continue
		}
		s.leave()
	}
}

// shutOut lets no more execs in, and reports whether somebody has the shell.
func (s *shell) shutOut() (busy bool) {
	s.face.mu.Lock()
	defer s.face.mu.Unlock()
	s.face.shut = true
	busy, s.busy = s.busy, true
	return busy
}

func (s *shell) isClosing() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// attempt does something for e. Nothing that goes wrong there may end the
// process, which would be the end of the sandbox.
func (s *shell) attempt(e *exec, do func()) {
	defer func() {
		if p := recover(); p != nil {
			s.discard()
			s.give(e, protocol.Refuse(protocol.CodeInternal, "the runner has a defect: %v", p))
		}
	}()
	do()
}

// give ends an exec that could not be run.
func (s *shell) give(e *exec, err error) {
	if e == nil {
		return
	}
	s.face.change(func(i *protocol.ShellInfo) { i.Exec = "" })
	select {
	case <-e.done:
	default:
		s.r.records.remove(e)
		e.abort(err)
	}
}

// prepare starts a process, so that the next command finds one. If that fails
// it is tried again, and reported, with that command.
func (s *shell) prepare() {
	if err := s.ensure(); err != nil {
		s.discard()
	}
}

// ensure makes sure that a shell process is there.
func (s *shell) ensure() error {
	if s.proc != nil {
		if !s.proc.Dead() {
			return nil
		}
		s.discard()
	}
	if s.ran && protection.Off(protection.ShellRestart) {
		return protocol.Refuse(protocol.CodeUnavailable, "the shell has ended")
	}
	dir := s.r.opts.Workspace
	p, err := shellproc.Start(shellproc.Options{
		Dialect: s.r.dialect, Reaper: s.r.reaper, Env: s.r.home.Load().env, Dir: dir, Proc: s.r.opts.Proc, Steps: s.r.opts.User.steps(),
	})
	if err != nil {
		return protocol.Refuse(protocol.CodeUnavailable, "a shell cannot be started in the sandbox (%v); it may be out of memory or processes", err)
	}
	s.proc, s.last, s.fresh, s.spoiled = p, 0, s.ran, false
	s.face.change(func(i *protocol.ShellInfo) {
		if i.PID = p.PID; s.ran {
			i.Restarts++
		}
	})
	if !s.ran {
		s.ran, s.cwd = true, dir
	}
	if err := s.restore(); err != nil {
		s.discard()
		return protocol.Refuse(protocol.CodeUnavailable, "the shell does not start (%v)", err)
	}
	return nil
}

// restore makes a fresh shell ready, and takes it to where the last one was.
func (s *shell) restore() error {
	script := s.state
	if s.fresh && !s.moved {
		script = append(dialect.Quote(append(bytes.Clone(script), "cd -- "...), []byte(s.cwd)), '\n')
	}
	s.seq++
	if err := s.proc.Order(s.r.dialect.Setup(s.seq, script)); err != nil {
		return err
	}
	if _, ok := s.await(setupTime); !ok {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// await waits for the report on the last order for at most d.
func (s *shell) await(d time.Duration) (shellproc.Report, bool) {
	deadline := time.Now().Add(d)
	for {
		st, what := s.proc.Wait(time.Until(deadline), nil)
		switch {
		case what == shellproc.Reported && st.Seq == s.seq:
			return st, st.Ran
		case what == shellproc.TimeUp || what == shellproc.Exited:
			return shellproc.Report{}, false
		}
	}
}

// discard ends the shell's process and keeps what it left.
func (s *shell) discard() {
	if s.proc == nil {
		return
	}
	if script, dir := s.proc.Saved(); script != nil {
		s.state, s.moved = script, dir
	}
	s.proc.Close()
	s.proc = nil
	s.face.change(func(i *protocol.ShellInfo) { i.PID = 0 })
}
