package runner

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/protocol"
)

// shell is a persistent shell: one process after another, if commands end or
// replace it. Its loop alone touches it, so execs run one after another.
type shell struct {
	r     *Runner
	name  string
	queue chan *exec
	face  face

	once    sync.Once     // of closing
	closing chan struct{} // closed when the loop is to end
	ended   chan struct{} // closed when it has

	proc  *shellProc // nil while there is none
	fresh bool       // proc took another's place and has run nothing yet
	ran   bool       // there was a proc before
	seq   uint64     // of the last order
	last  int        // exit code of the last command
	timer *time.Timer

	cwd       string // last reported
	variables []byte // the exported ones, as a script; see recall
	stale     bool   // a command ran since variables were asked for
}

// Times of a shell's loop.
const (
	quietTime   = 20 * time.Millisecond  // without an exec, before variables are asked for
	firstCheck  = 20 * time.Millisecond  // of a shell that has not reported yet
	nextChecks  = 250 * time.Millisecond //
	recallTime  = time.Second            // for the variables
	restoreTime = 5 * time.Second        // for a fresh shell to come to where the last one was
	backlogTime = 5 * time.Millisecond   // between looks at a reader that is behind
)

func newShell(r *Runner, name string) *shell {
	t := time.NewTimer(0)
	t.Stop()
	return &shell{
		r: r, name: name, queue: make(chan *exec, maxQueued), timer: t, face: newFace(name, r.opts.Workspace),
		closing: make(chan struct{}), ended: make(chan struct{}),
	}
}

// submit queues e behind the execs before it.
func (s *shell) submit(e *exec) error {
	s.face.mu.Lock()
	defer s.face.mu.Unlock()
	if s.face.shut {
		return protocol.Refuse(protocol.CodeUnavailable, "the shell has just been closed; try again")
	}
	select {
	case s.queue <- e:
		return nil
	default:
		return protocol.Refuse(protocol.CodeExhausted, "%d execs wait for this shell, which is the limit; use another shell", maxQueued)
	}
}

func (s *shell) loop() {
	defer s.finish()
	s.attempt(nil) // so that the first command finds a shell
	for {
		var quiet <-chan time.Time
		if s.stale && s.proc != nil {
			s.timer.Reset(quietTime)
			quiet = s.timer.C
		}
		select {
		case e := <-s.queue:
			s.attempt(e)
		case <-quiet:
			s.recall()
		case <-s.closing:
			return
		}
	}
}

// attempt runs e, or only makes sure that there is a shell. Nothing that goes
// wrong here may end the process, which would be the end of the sandbox.
func (s *shell) attempt(e *exec) {
	defer func() {
		if p := recover(); p != nil {
			s.discard()
			s.give(e, protocol.Refuse(protocol.CodeInternal, "the runner has a defect: %v", p))
		}
	}()
	if e == nil {
		if err := s.ensure(); err != nil {
			return // it is tried again, and reported, with the first command
		}
		return
	}
	s.run(e)
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

// run takes e through its life.
func (s *shell) run(e *exec) {
	select {
	case <-e.stop:
		e.end(ending{cause: protocol.CauseCanceled, code: codeCanceled, cwd: s.cwd})
		s.r.records.ended()
		return
	default:
	}
	how, err := s.try(e)
	if err == nil && how.cause == "" {
		// The shell was about to end, or cannot redirect any more. Nothing has
		// run, so a fresh one can.
		s.discard()
		how, err = s.try(e)
	}
	if err == nil && how.cause == "" {
		s.discard()
		err = protocol.Refuse(protocol.CodeUnavailable, "the shell cannot run commands; the sandbox may be out of memory, processes or descriptors")
	}
	if err != nil {
		s.give(e, err)
		return
	}
	if how.cwd != "" {
		s.cwd = how.cwd
	}
	how.cwd = s.cwd
	s.face.change(func(i *protocol.ShellInfo) { i.Exec, i.Cwd = "", s.cwd })
	if s.proc.dead() {
		s.discard()
	}
	e.end(how)
	s.r.records.ended()
	if s.proc == nil {
		s.attempt(nil) // after the answer is on its way
	}
}

// try runs e in a shell. Without a cause in its ending it did not run.
func (s *shell) try(e *exec) (ending, error) {
	if err := s.ensure(); err != nil {
		return ending{}, err
	}
	if err := s.r.spill(e); err != nil {
		return ending{}, err
	}
	oom := s.r.oomKills()
	began := s.r.procs.Now()
	e.start(s.fresh)
	e.runs(shellJob{s.killing(began)})
	s.face.change(func(i *protocol.ShellInfo) { i.Exec = e.req.ID })
	s.fresh = false
	k := s.proc.pick()
	out := s.proc.outs[k]
	out.direct(e.out)
	defer s.settle(e, out)
	s.seq++
	if err := s.order(e, k); err != nil {
		return ending{}, nil
	}
	s.stale = true
	how := s.watch(e, began)
	if how.code == 128+int(unix.SIGKILL) && s.r.oomKills() > oom {
		how.cause = protocol.CauseOOMKilled
	}
	return how, nil
}

// order writes the command into the shell.
func (s *shell) order(e *exec, out int) error {
	fds := s.proc.dialect.fds()
	o := order{seq: s.seq, text: e.command, stdin: fds.null, out: fds.out[out], last: s.last}
	if len(e.stdin) > 0 {
		if err := fill(s.proc.stdin, e.stdin); err != nil {
			return err
		}
		o.stdin = fds.stdin
	}
	line, file := s.proc.dialect.command(o)
	if file != nil {
		if err := fill(s.proc.text, file); err != nil {
			return err
		}
	}
	return s.proc.send(line)
}

// settle takes the rest of the output. Whatever was written before the shell
// reported is in the pipe by now.
func (s *shell) settle(e *exec, out *outPipe) {
	for out.settle() == flowFull {
		select {
		case <-time.After(backlogTime):
		case <-e.stop:
			e.out.Flood()
		case <-s.closing:
			e.out.Flood()
		}
	}
	out.direct(nil)
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
	s.proc, s.last = p, 0
	s.face.change(func(i *protocol.ShellInfo) {
		if i.PID = p.pid; s.ran {
			i.Restarts++
		}
	})
	s.seq++
	if !s.ran {
		s.ran, s.cwd = true, dir
		err = p.send(p.dialect.setup(noFile, s.seq))
	} else {
		s.fresh = true
		err = s.restore()
	}
	if err != nil {
		s.discard()
		return protocol.Refuse(protocol.CodeUnavailable, "the shell does not start (%v)", err)
	}
	return nil
}

// restore takes a fresh shell to where the last one was.
func (s *shell) restore() error {
	if err := fill(s.proc.text, restoreScript(s.cwd, s.variables)); err != nil {
		return err
	}
	if err := s.proc.send(s.proc.dialect.setup(textFile, s.seq)); err != nil {
		return err
	}
	_, err := s.reply(restoreTime)
	return err
}

// recall asks for the exported variables, for the case that the shell ends.
// It is done when the shell has been quiet for a moment, because it takes as
// long as a short command. Variables set since then are lost with the shell.
func (s *shell) recall() {
	s.stale = false
	line := s.proc.dialect.recall(s.seq + 1)
	if line == nil {
		return
	}
	s.seq++
	if err := s.proc.send(line); err != nil {
		return // it is dead or stuck, which the next exec will find out
	}
	if st, err := s.reply(recallTime); err == nil && len(st.text) > 0 {
		s.variables = st.text
	}
}

// reply waits for the report on the last order, which was one of ours.
func (s *shell) reply(limit time.Duration) (status, error) {
	s.timer.Reset(limit)
	defer s.timer.Stop()
	for {
		select {
		case st, ok := <-s.proc.statuses:
			if !ok {
				return status{}, os.ErrClosed
			}
			if st.seq == s.seq {
				return st, nil
			}
		case <-s.timer.C:
			return status{}, os.ErrDeadlineExceeded
		case <-s.proc.exited:
			return status{}, os.ErrProcessDone
		case <-s.closing:
			return status{}, os.ErrClosed
		}
	}
}

// discard ends the shell's process.
func (s *shell) discard() {
	if s.proc == nil {
		return
	}
	s.proc.close()
	s.proc = nil
	s.face.change(func(i *protocol.ShellInfo) { i.PID = 0 })
	s.stale = false
}
