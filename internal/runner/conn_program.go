package runner

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/protocol"
)

// placeTime is how long a new terminal's first output is kept for who started it.
// On a busy host that takes a while to attach.
const placeTime = 30 * time.Second

func (c *conn) start(req protocol.Start, size int64) error {
	release, err := c.r.takePayload(size)
	if err != nil {
		return err
	}
	argv, env, stdin, err := c.startPayload(req, size)
	if err != nil {
		release()
		return err
	}
	e := newProgram(req, argv, &c.r.records.budget)
	e.release = release
	if err := c.r.records.add(e); err != nil {
		release()
		return err
	}
	rd := e.out.Attach(0)
	defer rd.Detach()
	if err := c.r.launch(e, req, argv, env, stdin); err != nil {
		c.r.records.remove(e)
		e.abort(err)
		return err
	}
	if req.Background && req.TTY && req.HangupMS > 0 {
		e.out.Await(min(placeTime, time.Duration(req.HangupMS)*time.Millisecond)) // for who started it
	}
	if req.Background {
		return c.out.Send(protocol.TypeStarted, e.record(), nil)
	}
	return c.accepted(e, rd, req.Accept)
}

// startPayload checks a request and reads its arguments, environment and stdin.
func (c *conn) startPayload(req protocol.Start, size int64) (argv, env []string, stdin []byte, err error) {
	rest := size - req.ArgvBytes - req.EnvBytes
	switch {
	case req.ArgvBytes < 0 || req.EnvBytes < 0 || req.ArgvBytes > size || rest < 0:
		err = protocol.Refuse(protocol.CodeInvalid, "argv_bytes and env_bytes must lie within the payload")
	case max(req.ArgvBytes, req.EnvBytes) > protocol.MaxArguments:
		err = protocol.Refuse(protocol.CodeTooLarge, "the arguments and the environment are limited to %d bytes each; write longer ones to a file first", protocol.MaxArguments)
	case rest > protocol.MaxCommand:
		err = protocol.Refuse(protocol.CodeTooLarge, "stdin is limited to %d bytes; leave it open for more", protocol.MaxCommand)
	case req.HangupMS < 0:
		err = protocol.Refuse(protocol.CodeInvalid, "hangup_ms must not be negative")
	case len(req.Cwd) > protocol.MaxPath || strings.IndexByte(req.Cwd, 0) >= 0:
		err = protocol.Refuse(protocol.CodeInvalid, "cwd must be at most %d bytes without zero bytes", protocol.MaxPath).For("cwd")
	default:
		err = checkTerms(req.ID, req.TimeoutMS, req.GraceMS)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	payload := make([]byte, size)
	if _, err := io.ReadFull(c.in, payload); err != nil {
		return nil, nil, nil, err
	}
	argv, ok := zeroEnded(payload[:req.ArgvBytes])
	if !ok {
		return nil, nil, nil, errZeroEnded
	}
	env, err = variables(payload[req.ArgvBytes : req.ArgvBytes+req.EnvBytes])
	return argv, env, payload[size-rest:], err
}

var errZeroEnded = protocol.Refuse(protocol.CodeInvalid, "each argument and each variable must end with a zero byte, and have no other")

// zeroEnded splits a list of strings, each with a zero byte behind it.
func zeroEnded(b []byte) ([]string, bool) {
	if len(b) == 0 {
		return nil, true
	}
	if b[len(b)-1] != 0 {
		return nil, false
	}
	return strings.Split(string(bytes.TrimSuffix(b, []byte{0})), "\x00"), true
}

// program returns the program of an exec that runs.
func (r *Runner) program(id string) (*program, error) {
	e, err := r.records.get(id)
	if err != nil {
		return nil, err
	}
	what, err := e.now()
	if err != nil {
		return nil, err
	}
	p, ok := what.(*program)
	if !ok {
		return nil, protocol.Refuse(protocol.CodeConflict, "%q is a command in a shell, which has no terminal, and no open stdin unless it was started with open_stdin", id)
	}
	return p, nil
}

func (c *conn) stdin(req protocol.Stdin, _ int64) error {
	if req.WaitMS < 0 {
		return protocol.Refuse(protocol.CodeInvalid, "wait_ms must not be negative")
	}
	to, err := c.r.stdinTaker(req.ID)
	if err != nil {
		return err
	}
	taken, err := to.takeStdin(req, c.in, func() bool { return !c.gone() })
	if err != nil {
		return err
	}
	if err := c.in.Discard(); err != nil {
		return err
	}
	return c.out.Send(protocol.TypeTaken, taken, nil)
}

func (c *conn) signal(req protocol.Signal, _ int64) error {
	if req.Signal < 1 || req.Signal > 64 {
		return protocol.Refuse(protocol.CodeInvalid, "signal must be a number from 1 to 64")
	}
	e, err := c.r.records.get(req.ID)
	if err != nil {
		return err
	}
	what, err := e.now()
	if err != nil {
		return err
	}
	if err := what.signal(req.Signal); err != nil {
		return err
	}
	return c.out.Send(protocol.TypeOK, nil, nil)
}

func (c *conn) resize(req protocol.Resize, _ int64) error {
	p, err := c.r.program(req.ID)
	if err != nil {
		return err
	}
	if err := p.resize(req.Rows, req.Cols); err != nil {
		return err
	}
	return c.out.Send(protocol.TypeOK, nil, nil)
}

func (c *conn) closeShell(req protocol.CloseShell, _ int64) error {
	if err := c.r.closeShell(req.Name); err != nil {
		return err
	}
	return c.out.Send(protocol.TypeOK, nil, nil)
}

// execs sends the records, as many of the latest as fit into a header. Those of
// running programs say what these take now.
func (c *conn) execs() error {
	table, err := c.r.procs.List()
	if err != nil {
		table = nil // the programs look for themselves
	}
	all := c.r.records.all()
	answer := protocol.Records{Execs: []protocol.Record{}}
	room := protocol.MaxHeader - 256 // for what is around them
	for _, e := range slices.Backward(all) {
		rec := e.record()
		if what, err := e.now(); err == nil {
			if p, ok := what.(*program); ok {
				rec.Usage, rec.OOMKills = p.usage(table), p.r.oomKills()-p.oom
			}
		}
		text, err := json.Marshal(rec)
		if err != nil {
			return err
		}
		if room -= len(text) + 1; room < 0 {
			answer.Truncated = true
			break
		}
		answer.Execs = append(answer.Execs, rec)
	}
	slices.Reverse(answer.Execs)
	return c.out.Send(protocol.TypeRecords, answer, nil)
}
