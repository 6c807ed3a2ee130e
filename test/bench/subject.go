package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// subject makes sandboxes, ours or a peer's.
type subject interface {
	name() string

	// create returns when a command in the new sandbox has printed "ok" and
	// the caller has read it. After an error nothing is left.
	create(ctx context.Context) (sandbox, error)
}

// sandbox is a living one.
type sandbox interface {
	// exec runs the command true in the sandbox and returns when its exit code is known.
	exec(ctx context.Context) error

	// destroy returns when the sandbox is gone, as far as its maker tells.
	destroy(ctx context.Context) error
}

// readyCommand is what process sandboxes run: they say that they are there,
// and live until their input ends.
const readyCommand = "echo ok; read -r _; exit 0"

// processSubject makes sandboxes with a command that stays in the foreground.
type processSubject struct {
	title   string
	start   starter
	command func(id string) []string // runs readyCommand in a new sandbox
	execIn  func(id string) []string // runs true in it; nil if there is no such command
	newID   func() string
}

func (s *processSubject) name() string { return s.title }

func (s *processSubject) create(ctx context.Context) (sandbox, error) {
	id := s.newID()
	p, err := startProcess(ctx, s.start, s.command(id))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.title, err)
	}
	return &processSandbox{process: p, subject: s, id: id}, nil
}

type processSandbox struct {
	*process
	subject *processSubject
	id      string
}

func (s *processSandbox) exec(ctx context.Context) error {
	if s.subject.execIn == nil {
		return errors.ErrUnsupported
	}
	args := s.subject.execIn(s.id)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := s.subject.start(cmd); err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%s exec: %w: %s", s.subject.title, err, out.String())
	}
	return nil
}

func (s *processSandbox) destroy(context.Context) error { return s.end() }

// process is a command that has said "ok" and ends with its input.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr *strings.Builder
}

// startProcess starts args and waits for its "ok".
func startProcess(ctx context.Context, start starter, args []string) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, args[0], args[1:]...), stderr: &strings.Builder{}}
	p.cmd.Stderr = p.stderr
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.stdout = bufio.NewReader(stdout)
	if err := start(p.cmd); err != nil {
		return nil, err
	}
	if line, err := p.stdout.ReadString('\n'); line != "ok\n" {
		return nil, errors.Join(fmt.Errorf("it printed %q: %w", line, err), p.end())
	}
	return p, nil
}

// end closes the process's input and waits until it has ended.
func (p *process) end() error {
	closeErr := p.stdin.Close()
	err := p.cmd.Wait()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", p.cmd.Args[0], err, p.stderr.String())
	}
	return errors.Join(closeErr, err)
}

// hostBash is a bare bash on pipes, without any sandbox: the floor.
type hostBash struct{}

func (hostBash) name() string { return "bash on the host, no sandbox" }

func (hostBash) create(ctx context.Context) (sandbox, error) {
	const loop = `echo ok; while read -r line; do eval "$line"; echo $?; done`
	p, err := startProcess(ctx, startHere, []string{"bash", "-c", loop})
	if err != nil {
		return nil, err
	}
	return &hostShell{process: p}, nil
}

type hostShell struct {
	mu sync.Mutex
	*process
}

func (s *hostShell) exec(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := io.WriteString(s.stdin, "true\n"); err != nil {
		return err
	}
	status, err := s.stdout.ReadString('\n')
	if err == nil && status != "0\n" {
		err = fmt.Errorf("true gave %q", status)
	}
	return err
}

func (s *hostShell) destroy(context.Context) error { return s.end() }

// lifecycle measures a subject's whole life: "ready" from the request until
// "ok" has been read, "total" until the sandbox is gone.
func lifecycle(s subject, stride int) contestant {
	return contestant{s.name(), stride, func(ctx context.Context, record func(string, time.Duration)) error {
		begin := time.Now()
		box, err := s.create(ctx)
		if err != nil {
			return err
		}
		record("ready", time.Since(begin))
		err = box.destroy(ctx)
		record("total", time.Since(begin))
		return err
	}}
}

// execution measures one command in a sandbox that lives.
func execution(name string, box sandbox, stride int) contestant {
	return contestant{name, stride, func(ctx context.Context, record func(string, time.Duration)) error {
		begin := time.Now()
		err := box.exec(ctx)
		record("exec", time.Since(begin))
		return err
	}}
}
