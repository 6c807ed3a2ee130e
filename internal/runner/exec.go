package runner

import (
	"sync"
	"time"

	"github.com/sandkasten/sandkasten/protocol"
)

// exec is one command on its way through a shell. Its life is queued, running,
// ended; the shell's loop moves it on, connections watch.
type exec struct {
	req     protocol.Exec
	command []byte // dropped at the end
	release func() // gives back what the payload takes of the runner's; once
	stdin   []byte // dropped at the end
	out     *output

	stop chan struct{} // closed by cancel
	done chan struct{} // closed at the end

	mu    sync.Mutex
	rec   protocol.Record // guarded by mu
	began time.Time       // guarded by mu
	at    time.Time       // guarded by mu; of the end
	fail  error           // guarded by mu; why it never ran
	once  sync.Once       // of stop
}

// shownCommand is how much of a command a record repeats.
const shownCommand = 256

func newExec(req protocol.Exec, payload []byte, b *budget) *exec {
	command := payload[:req.CommandBytes]
	return &exec{
		req:     req,
		release: func() {},
		command: command,
		stdin:   payload[req.CommandBytes:],
		out:     newOutput(b, req.OutputLimit),
		stop:    make(chan struct{}),
		done:    make(chan struct{}),
		rec: protocol.Record{
			ID: req.ID, Shell: req.Shell, State: protocol.StateQueued,
			Command: string(command[:min(len(command), shownCommand)]),
		},
	}
}

// start marks the beginning, or another one if the first shell could not, and
// returns the time of the first.
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

// deadline is when its time is up; zero is never.
func (e *exec) deadline() time.Time {
	if e.req.TimeoutMS == 0 {
		return time.Time{}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.began.Add(time.Duration(e.req.TimeoutMS) * time.Millisecond)
}

// ending is what the shell's loop learned of an exec's end.
type ending struct {
	cause protocol.Cause
	code  int
	cwd   string
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
	e.mu.Lock()
	e.at = time.Now()
	if e.began.IsZero() { // canceled in the queue
		e.began = e.at
	}
	e.rec.State = protocol.StateEnded
	e.rec.Cause = how.cause
	e.rec.ExitCode = how.code
	e.rec.Cwd = how.cwd
	switch how.cause {
	case protocol.CauseSignaled, protocol.CauseOOMKilled, protocol.CauseShellExited:
		e.rec.Signal = signalOf(how.code)
	}
	e.rec.DurationUS = e.at.Sub(e.began).Microseconds()
	e.command, e.stdin = nil, nil
	at := e.at
	e.mu.Unlock()
	e.release()
	close(e.done)
	e.out.end()
	return at
}

// abort says that the exec could not be run at all.
func (e *exec) abort(err error) {
	e.mu.Lock()
	e.fail = err
	e.command, e.stdin = nil, nil
	e.mu.Unlock()
	e.release()
	close(e.done)
	e.out.end()
}

// cancel asks the shell's loop to end the exec the way a timeout does.
func (e *exec) cancel() { e.once.Do(func() { close(e.stop) }) }

// record returns what is known now.
func (e *exec) record() protocol.Record {
	e.mu.Lock()
	rec := e.rec
	if rec.State == protocol.StateRunning {
		rec.DurationUS = time.Since(e.began).Microseconds()
	}
	e.mu.Unlock()
	rec.OutputBytes, rec.DroppedBytes = e.out.counts()
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
