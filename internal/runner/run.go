package runner

import (
	"bytes"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/dialect"
	"github.com/sandkasten/sandkasten/internal/runner/pipe"
	"github.com/sandkasten/sandkasten/internal/runner/proc"
	"github.com/sandkasten/sandkasten/internal/runner/shellproc"
	"github.com/sandkasten/sandkasten/protocol"
)

// run is an exec that a shell is at.
type run struct {
	e     *exec
	out   *pipe.Output
	began proc.Moment
	oom   int64 // kills before it began
	tries int   // how often it was ordered

	own   bool // what the shell writes itself is its output, too
	asked bool // the shell is to tell when it begins
	begun bool // and has

	pending    shellproc.Report // the report on it, if there was no room for its output then
	hasPending bool
}

// maxTries is how often an exec is ordered, if the shell says that it could
// not run it. A command that says so itself is run once more in a fresh shell,
// which it could have done as well.
const maxTries = 2

// brief begins e and follows it to its end if that comes soon. Otherwise it
// returns what is to be finished.
func (s *shell) brief(e *exec) *run {
	x := s.begin(e)
	if x == nil {
		return nil
	}
	if e.input != nil { // what it is to read comes only when the client knows of it
		return x
	}
	limit, out := x.firstWait()
	for {
		st, what := s.proc.Wait(limit, out)
		switch {
		case what == shellproc.Reported && !s.mine(x, st):
		case what == shellproc.Reported && !st.Ran:
			if !s.again(x) {
				return nil
			}
			limit, out = x.firstWait()
		case what == shellproc.Reported:
			if x.out.Settle() == pipe.Full { // its reader is who runs this
				x.pending, x.hasPending = st, true
				return x
			}
			s.conclude(x, s.reported(st))
			return nil
		case what == shellproc.Written: // perhaps all that it will, and the report goes with it
			limit, out = e.company(), nil
		case what != shellproc.TimeUp || out != nil || x.out.Settle() == pipe.Full || x.wrote():
			return x
		default:
			limit, out = x.briefWait()
		}
	}
}

// firstWait is what brief waits for first: most commands report so soon that it is
// not worth looking at their output, unless somebody does.
func (x *run) firstWait() (limit time.Duration, out *pipe.Output) {
	if x.e.live {
		return x.briefWait()
	}
	return shortTime, nil
}

// briefWait is for as long as brief goes on, or until there is output.
func (x *run) briefWait() (limit time.Duration, out *pipe.Output) {
	return untilNext(briefTime, x.e.deadline()), x.out
}

// wrote reports whether there is output, which somebody may be waiting for.
func (x *run) wrote() bool {
	total, _ := x.e.out.Counts()
	return total > 0
}

// whole takes e through its life.
func (s *shell) whole(e *exec) {
	if x := s.begin(e); x != nil {
		s.complete(x)
	}
}

// complete follows an exec to its end.
func (s *shell) complete(x *run) {
	for {
		if how := s.watch(x); how.cause != "" {
			s.conclude(x, how)
			break
		}
		if !s.again(x) {
			break
		}
	}
	if s.proc == nil {
		s.prepare() // now that the answer is on its way
	}
}

// begin orders e. It returns nil if e has ended with that.
func (s *shell) begin(e *exec) *run {
	select {
	case <-e.stop:
		e.end(ending{cause: protocol.CauseCanceled, code: codeCanceled, cwd: s.cwd})
		s.r.records.ended()
		return nil
	default:
	}
	x := &run{e: e}
	if err := s.r.spill(e); err != nil {
		s.give(e, err)
		return nil
	}
	if !s.order(x) {
		return nil
	}
	return x
}

// again orders x once more after a shell that could not run it: first in the same
// one, as if a variable were in the way.
func (s *shell) again(x *run) bool {
	x.out.Direct(nil)
	if s.spoiled || s.proc.Dead() {
		if !s.renew(x) {
			return false
		}
	} else {
		s.spoiled = true
		x.tries--
	}
	return s.order(x)
}

// order writes the command into the shell, or into a fresh one if that was
// about to end. It reports false if it gave the exec up.
func (s *shell) order(x *run) bool {
	for ; x.tries < maxTries; x.tries++ {
		if err := s.ensure(); err != nil {
			s.give(x.e, err)
			return false
		}
		if err := s.write(x); err == nil {
			x.tries++
			return true
		}
		x.out.Direct(nil)
		if !s.renew(x) {
			return false
		}
	}
	s.give(x.e, errNoShell)
	return false
}

var errNoShell = protocol.Refuse(protocol.CodeUnavailable, "the shell cannot run commands; the sandbox may be out of memory, processes or descriptors")

// renew discards a process that could not run x. If x has been given some of its
// stdin, another process has not got that: x is given up.
func (s *shell) renew(x *run) bool {
	fresh := x.e.input.forget()
	s.discard()
	if !fresh {
		s.give(x.e, errNoShell)
	}
	return fresh
}

// write is one try of order.
func (s *shell) write(x *run) error {
	x.oom = s.r.oomKills()
	x.began = s.r.procs.Now()
	quiet := x.e.start(s.fresh).Sub(s.idle) >= quietTime
	x.e.runs(shellJob{s.killing(x.began)})
	s.face.change(func(i *protocol.ShellInfo) { i.Exec, s.face.began = x.e.req.ID, x.began })
	s.fresh = false
	k := s.proc.Pick()
	x.out = s.proc.Outs[k]
	x.out.Direct(x.e.out)
	s.seq++
	x.asked, x.begun = s.last == codeSyntax && s.r.dialect.Idles(), false
	o := dialect.Order{
		Seq: s.seq, Text: x.e.command, Out: k, Last: s.last,
		Save: quiet || mayExport(x.e.command), Tell: x.asked, Spoiled: s.spoiled,
	}
	switch {
	case x.e.input != nil:
		o.Stdin = dialect.OpenStdin
		if err := x.e.input.connect(s.proc.Source); err != nil {
			return err
		}
	case len(x.e.stdin) > 0:
		o.Stdin = dialect.FileStdin
		if err := s.proc.Stdin.Fill(x.e.stdin); err != nil {
			return err
		}
	}
	s.proc.Own.Settle() // what nobody asked for: the shell's word on a job that has ended, for instance
	if err := s.proc.Order(s.r.dialect.Command(o)); err != nil {
		return err
	}
	if in, head := x.e.input.begin(x.e.stdin), x.e.stdin; in != nil {
		s.r.wg.Go(func() { in.Feed(head, false) }, x.e.fault)
	}
	return nil
}

// mayExport reports whether a command looks as if it changed an exported
// variable. If it does that by a function, and others follow it at once, it is
// not seen, and saved with the next command that is or that comes after a
// pause.
func mayExport(command []byte) bool {
	for _, word := range []string{"=", "export", "declare", "typeset", "eval", "source", ". ", "read", "set"} {
		if bytes.Contains(command, []byte(word)) {
			return true
		}
	}
	return false
}

// conclude ends an exec of which all is known but the rest of its output.
func (s *shell) conclude(x *run, how ending) {
	s.settle(x, x.out)
	if s.proc.Dead() {
		// What it wrote on its way out, by a trap on EXIT, is the command's too.
		s.takeOwn(x)
		s.settle(x, s.proc.Own)
	}
	s.proc.Own.Direct(nil)
	if how.code == 128+int(unix.SIGKILL) && how.cause != protocol.CauseTimeout && how.cause != protocol.CauseCanceled && s.r.oomKills() > x.oom {
		how.cause = protocol.CauseOOMKilled
	}
	if how.cwd != "" {
		s.cwd, s.moved = how.cwd, false
	}
	how.cwd, how.full = s.cwd, s.r.full(how.code)
	s.face.change(func(i *protocol.ShellInfo) { i.Exec, i.Cwd = "", protocol.EscapeName(s.cwd) })
	if s.proc.Dead() {
		s.discard()
	}
	s.idle = x.e.end(how)
	s.r.records.ended()
}

// settle takes the rest of the output that is in a pipe. Whatever was written before
// the shell reported is there by now. What comes later is dropped, so somebody has
// to take it while anybody can write.
func (s *shell) settle(x *run, out *pipe.Output) {
	at := out.Settle()
	for at == pipe.Full {
		select {
		case <-time.After(backlogTime):
		case <-x.e.stop:
			x.e.out.Flood()
		case <-s.closing:
			x.e.out.Flood()
		}
		at = out.Settle()
	}
	out.Direct(nil)
	if at == pipe.Empty {
		s.drain(x, out)
	}
}

// drain has a pipe read in the background. If that is not possible, a command
// that writes more than the pipe takes will wait for its timeout.
func (s *shell) drain(x *run, out *pipe.Output) {
	if news, err := out.Watch(); err == nil && news {
		s.r.wg.Go(out.Pump, x.e.fault)
	}
}

// ownBacklog is more than a shell writes without a trap on EXIT.
const ownBacklog = 16 << 10

// drainOwn passes on what the shell writes on its way out before that has ended, if it
// is so much that the shell would have to wait for a reader. What the command itself
// wrote comes first.
func (s *shell) drainOwn(x *run) {
	switch {
	case s.proc.Own.Unread() < ownBacklog:
		return
	case len(x.e.command) > ownBacklog/2: // it may be the trace of that, under set -x
		s.proc.Own.Settle()
		return
	case x.out.Settle() == pipe.Full:
		return
	}
	s.takeOwn(x)
	s.drain(x, s.proc.Own)
}

// takeOwn makes what the shell writes without a command's redirections the output of x,
// but for the trace of how it came to the command, under set -x.
func (s *shell) takeOwn(x *run) {
	if x.own {
		return
	}
	x.own = true
	s.proc.Own.Trim(func(text []byte) []byte {
		quoted := dialect.Quote(nil, x.e.command)
		for _, command := range [][]byte{quoted, bytes.ReplaceAll(quoted, []byte(`'\''`), []byte(`'"'"'`)), x.e.command} {
			if _, after, traced := bytes.Cut(text, slices.Concat([]byte(" eval "), command, []byte("\n"))); traced {
				return after
			}
		}
		return text
	})
	s.proc.Own.Direct(x.e.out)
}
