package runner

import (
	"sync"
	"time"

	"github.com/sandkasten/sandkasten/internal/runner/output"
	"github.com/sandkasten/sandkasten/protocol"
)

// exec is one command on its way through a shell, or a program of its own. Its
// life is queued, running, ended; the shell's loop or the program's moves it
// on, connections watch.
type exec struct {
	req     protocol.Exec // of a program, the fields that it has in common with a command
	command []byte        // of a shell's; dropped at the end
	release func()        // gives back what the payload takes of the runner's; the first time
	stdin   []byte        // of a shell's; dropped at the end
	input   *input        // of a shell's; nil unless its stdin stays open
	live    bool          // somebody looks at the output as it comes
	out     *output.Output
	file    *output.Spill // nil without an output file; the shell's loop or the program's only

	launched chan struct{} // of a program; closed when it runs, if it ever does
	stop     chan struct{} // closed by cancel
	done     chan struct{} // closed at the end

	mu      sync.Mutex
	rec     protocol.Record // guarded by mu
	began   time.Time       // guarded by mu
	at      time.Time       // guarded by mu; of the end
	fail    error           // guarded by mu; why it never ran
	running running         // guarded by mu; nil while it does not run
	once    sync.Once       // of stop
}

// running is what can be done to an exec while it runs.
type running interface {
	signal(sig int) error
}

// shownCommand is how much of a command a record repeats.
const shownCommand = 256

// newExec returns the exec of a shell's command.
func newExec(req protocol.Exec, payload []byte, b *output.Budget) *exec {
	command := payload[:req.CommandBytes]
	e := queued(req, output.New(b, output.Combined, req.OutputLimit))
	e.command, e.stdin = command, payload[req.CommandBytes:]
	e.rec.Command = string(command[:min(len(command), shownCommand)])
	if req.OpenStdin {
		e.input = newInput()
	}
	return e
}

func queued(req protocol.Exec, out *output.Output) *exec {
	return &exec{
		req:     req,
		live:    req.Accept,
		release: func() {},
		out:     out,
		stop:    make(chan struct{}),
		done:    make(chan struct{}),
		rec:     protocol.Record{ID: req.ID, Shell: req.Shell, State: protocol.StateQueued, OutputFile: req.OutputFile},
	}
}

// start marks the beginning of a command, or another one if the first shell
// could not run it, and returns the time of the first.
func (e *exec) start(restarted bool) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.began.IsZero() {
		e.began = time.Now()
	}
	e.rec.State = protocol.StateRunning
	e.rec.StartedUnixMS = e.began.UnixMilli()
	e.rec.ShellRestarted = restarted
	return e.began
}

// runs says what runs now, or nil for nothing.
func (e *exec) runs(what running) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running = what
}

// started marks the beginning of a program, which was at a time before it ran.
func (e *exec) started(p *program, at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.began, e.running = at, p
	e.rec.State, e.rec.StartedUnixMS = protocol.StateRunning, at.UnixMilli()
	e.rec.PID, e.rec.Cwd = p.child.PID, protocol.EscapeName(p.cwd)
	close(e.launched)
}

// now returns what runs now. A program that is being started is waited for.
func (e *exec) now() (running, error) {
	if e.launched != nil {
		select {
		case <-e.launched:
		case <-e.done:
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running == nil {
		return nil, protocol.Refuse(protocol.CodeConflict, "exec %q is not running", e.req.ID)
	}
	return e.running, nil
}

// company is how long a short command's output waits for its end, to travel with it.
func (e *exec) company() time.Duration {
	if e.live {
		return liveTime
	}
	return shortTime
}

// deadline is when its time is up; zero is never.
func (e *exec) deadline() time.Time {
	if e.req.TimeoutMS == 0 {
		return time.Time{}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.began.Add(time.Duration(e.req.TimeoutMS) * time.Millisecond)
}

// ending is what the shell's loop, or the program's, learned of an exec's end.
type ending struct {
	cause protocol.Cause
	code  int
	cwd   string
	usage *protocol.Usage
	full  bool // the disk was then
}

// signalOf returns the signal that a shell's exit code stands for, or 0.
func signalOf(code int) int {
	if code > 128 && code <= 128+64 {
		return code - 128
	}
	return 0
}

// end marks the end, and returns its time. Nothing of the exec changes after it.
func (e *exec) end(how ending) time.Time {
	at := time.Now()
	e.input.close()
	e.out.End()
	trouble := e.file.Wait()
	e.mu.Lock()
	e.at = at
	if e.began.IsZero() { // canceled in the queue
		e.began = e.at
	}
	e.rec.State = protocol.StateEnded
	e.rec.Cause = how.cause
	e.rec.ExitCode = how.code
	e.rec.Cwd = protocol.EscapeName(how.cwd)
	e.rec.Usage = how.usage
	e.rec.DiskFull = how.full
	e.rec.OutputFileError = trouble
	switch how.cause {
	case protocol.CauseSignaled, protocol.CauseOOMKilled, protocol.CauseShellExited:
		e.rec.Signal = signalOf(how.code)
	}
	e.rec.DurationUS = e.at.Sub(e.began).Microseconds()
	e.command, e.stdin, e.running = nil, nil, nil
	e.mu.Unlock()
	e.release()
	close(e.done)
	return at
}

// abort says that the exec could not be run at all.
func (e *exec) abort(err error) {
	e.input.close()
	e.out.End()
	e.file.Wait()
	e.mu.Lock()
	e.fail = err
	e.command, e.stdin, e.running = nil, nil, nil
	e.mu.Unlock()
	e.release()
	close(e.done)
}

// fault ends the exec, because something that it needs has a defect, which its
// followers are told of instead of the record.
func (e *exec) fault(err error) {
	e.mu.Lock()
	if e.rec.State != protocol.StateEnded && e.fail == nil {
		e.fail = protocol.Refuse(protocol.CodeInternal, "%v", err)
	}
	e.mu.Unlock()
	e.cancel()
}

// cancel asks the shell's loop, or the program's, to end the exec the way a
// timeout does.
func (e *exec) cancel() { e.once.Do(func() { close(e.stop) }) }

// record returns what is known now.
func (e *exec) record() protocol.Record {
	e.mu.Lock()
	rec := e.rec
	if rec.State == protocol.StateRunning {
		rec.DurationUS = time.Since(e.began).Microseconds()
	}
	e.mu.Unlock()
	rec.OutputBytes, rec.DroppedBytes = e.out.Counts()
	return rec
}

// failure returns why the exec never ran, or nil.
func (e *exec) failure() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.fail
}

// endedAt returns the zero time while the exec has not ended.
func (e *exec) endedAt() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.at
}

// spill opens the output file that the request asks for, if it does and that
// has not been done yet.
func (r *Runner) spill(e *exec) error {
	if e.req.OutputFile == "" || e.file != nil {
		return nil
	}
	f, err := r.home.Load().files.Create(e.req.OutputFile, e.req.AllowOutside)
	if err != nil {
		return err
	}
	e.file = e.out.Spill(f)
	r.wg.Go(e.file.Run, e.fault)
	return nil
}
