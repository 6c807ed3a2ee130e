package runner

import (
	"bytes"
	"os"
	"sync"
	"time"

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

	mu    sync.Mutex
	busy  bool          // guarded by mu; somebody has the shell to itself
	shut  bool          // guarded by mu; the loop is about to end
	queue chan *exec    // execs that wait; only while it is busy
	turn  chan struct{} // gives the shell to the loop
	long  chan *run     // the same, with an exec that goes on

	// The rest belongs to who has the shell.

	proc  *shellProc // nil while there is none
	fresh bool       // proc took another's place and has run nothing yet
	ran   bool       // there was a proc before
	seq   uint64     // of the last order
	last  int        // exit code of the last command
	ended time.Time  // of the last command

	cwd   string // last known
	state []byte // a script, as a dead process left it for the next; see shellProc.saved
	moved bool   // state has a later directory than cwd
}

// Times of a shell.
const (
	inlineTime  = 3 * time.Millisecond  // that a connection waits for the end of its exec itself
	inlineStep  = time.Millisecond      // after which it looks at the output
	quietTime   = 20 * time.Millisecond // after which saving the variables takes nobody's time
	setupTime   = 5 * time.Second       // for a fresh shell to come to where the last one was
	backlogTime = 5 * time.Millisecond  // between looks at a reader that is behind
)

// newShell returns a shell that belongs to its loop, which must be started.
func newShell(r *Runner, name string) *shell {
	return &shell{
		r: r, name: name, busy: true,
		queue: make(chan *exec, maxQueued), turn: make(chan struct{}, 1), long: make(chan *run, 1),
	}
}

// submit runs e, or has it run after the execs before it.
func (s *shell) submit(e *exec) error {
	s.mu.Lock()
	if s.busy {
		defer s.mu.Unlock()
		select {
		case s.queue <- e:
			return nil
		default:
			return protocol.Refuse(protocol.CodeExhausted, "%d execs wait for this shell, which is the limit; use another shell", maxQueued)
		}
	}
	s.busy = true
	s.mu.Unlock()
	var long *run
	s.attempt(e, func() { long = s.brief(e) })
	if long != nil {
		s.long <- long
		return nil
	}
	s.leave()
	return nil
}

// leave gives the shell to the loop if that has something to do, else to
// nobody.
func (s *shell) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy = len(s.queue) > 0 || s.shut; s.busy {
		wake(s.turn)
	}
}

// loop runs the execs that take long or had to wait, until the runner closes.
func (s *shell) loop() {
	defer s.discard()
	s.attempt(nil, s.prepare) // so that the first command finds a shell
	s.leave()
	for closing := s.r.closing; ; {
		select {
		case x := <-s.long:
			s.attempt(x.e, func() { s.finish(x) })
		case <-s.turn:
			if s.stopping() {
				return
			}
			e := <-s.queue
			s.attempt(e, func() { s.whole(e) })
		case <-closing:
			if !s.close() {
				return
			}
			closing = nil
			continue
		}
		s.leave()
	}
}

// close has the loop end, and reports whether somebody else has the shell. It
// will be the loop's turn then.
func (s *shell) close() (busy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shut = true
	return s.busy
}

func (s *shell) stopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shut
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
		if !s.proc.dead() {
			return nil
		}
		s.discard()
	}
	dir := s.r.opts.Workspace
	p, err := s.r.startShell(dir)
	if err != nil {
		return protocol.Refuse(protocol.CodeUnavailable, "a shell cannot be started in the sandbox (%v); it may be out of memory or processes", err)
	}
	s.proc, s.last, s.fresh = p, 0, s.ran
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
		script = append(quote(append(bytes.Clone(script), "cd -- "...), []byte(s.cwd)), '\n')
	}
	s.seq++
	if err := s.proc.order(s.proc.dialect.setup(s.seq, script)); err != nil {
		return err
	}
	if _, ok := s.await(setupTime); !ok {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// await waits for the report on the last order for at most d.
func (s *shell) await(d time.Duration) (status, bool) {
	deadline := time.Now().Add(d)
	for {
		st, what := s.proc.wait(time.Until(deadline))
		switch {
		case what == eventReport && st.seq == s.seq:
			return st, st.ran
		case what == eventTime || what == eventExit:
			return status{}, false
		}
	}
}

// discard ends the shell's process and keeps what it left.
func (s *shell) discard() {
	if s.proc == nil {
		return
	}
	if script, dir := s.proc.saved(); script != nil {
		s.state, s.moved = script, dir
	}
	s.proc.close()
	s.proc = nil
}

func (s *shell) oomKills() int64 {
	if s.r.opts.OOMKills == nil {
		return 0
	}
	return s.r.opts.OOMKills()
}
