package tools

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sandkasten/sandkasten/sdk/go"
)

const (
	completed = "completed"
	running   = "running"
)

type execAnswer struct {
	ExecID    string  `json:"exec_id"`
	Status    string  `json:"status"`
	ExitCode  *int    `json:"exit_code,omitempty"`
	Stdout    *string `json:"stdout,omitempty"`
	Stderr    *string `json:"stderr,omitempty"`
	Lossy     bool    `json:"lossy,omitempty"`
	Truncated bool    `json:"truncated,omitempty"`
	ended
}

func execTool(ctx context.Context, c *call) (any, error) {
	cmd := c.texts("cmd")
	if len(cmd) == 0 || cmd[0] == "" {
		return nil, wrongInput(`cmd must have a program and its arguments, such as ["python3", "main.py"]; a line for a shell is ["sh", "-c", "..."]`)
	}
	cwd, err := directory(c.text("cwd"))
	if err != nil {
		return nil, err
	}
	session, err := c.session(ctx)
	if err != nil {
		return nil, err
	}
	options := sandkasten.ProcessOptions{Cwd: cwd, Env: c.mapping("env"), Timeout: c.seconds("timeout_seconds", c.set.opts.Timeout)}
	if c.flag("stream", false) {
		options.Timeout = c.seconds("timeout_seconds", 0) // servers have none
		process, err := session.StartProcess(ctx, cmd, &options)
		if err != nil {
			return nil, err
		}
		return execAnswer{ExecID: process.ID, Status: running, ended: ended{Hint: "sandbox_exec_read follows it, sandbox_exec_wait waits for its end."}}, nil
	}
	options.OnDisconnect = "kill"
	var result sandkasten.ProcessResult
	err = tell(ctx, strings.Join(cmd, " "), func() error {
		result, err = session.RunProcess(ctx, cmd, &options)
		return err
	})
	if err != nil {
		return nil, err
	}
	a, err := newExecAnswer(result, c.set.opts.MaxBytes)
	a.Hint = orElse(a.Hint, missingNetwork(ctx, session, result.ExitCode, result.Stdout+result.Stderr))
	return a, err
}

func newExecAnswer(r sandkasten.ProcessResult, most int) (execAnswer, error) {
	a := execAnswer{ExecID: r.ExecID, Status: completed, ExitCode: &r.ExitCode, ended: newEnded(r.ExecEnd)}
	stdout, lossy, cut, err := stream(r.Stdout, r.StdoutBase64, most, readOn(r.ExecEnd))
	if err != nil {
		return a, err
	}
	stderr, errLossy, errCut, err := stream(r.Stderr, r.StderrBase64, most, readOn(r.ExecEnd))
	a.Stdout, a.Stderr = &stdout, &stderr
	a.Lossy, a.Truncated = lossy || errLossy, r.Truncated || cut || errCut
	if a.Lossy {
		a.Hint = orElse(a.Hint, oddBytes)
	}
	return a, err
}

// directory is where a command begins. A command may be anywhere, so absolute paths
// are taken as they are.
func directory(cwd string) (string, error) {
	if strings.HasPrefix(cwd, "/") {
		return cwd, nil
	}
	return workspacePath("cwd", cwd)
}

type chunk struct {
	Seq     int64  `json:"seq"`
	Stream  string `json:"stream"`
	Text    string `json:"text,omitempty"`
	Lossy   bool   `json:"lossy,omitempty"`
	TextB64 string `json:"text_b64,omitempty"` // of what is no text, where bytes are asked for
}

type readAnswer struct {
	Chunks       []chunk `json:"chunks"`
	Done         bool    `json:"done"`
	NextSeq      int64   `json:"next_seq"`
	DroppedBytes int64   `json:"dropped_bytes,omitempty"`
	Status       string  `json:"status"`
	ExitCode     *int    `json:"exit_code,omitempty"`
	Cause        string  `json:"cause,omitempty"`
}

// readWait is how long a read waits for output, so that a model need not ask often.
const readWait = 2 * time.Second

func execReadTool(ctx context.Context, c *call) (any, error) {
	session, err := c.session(ctx)
	if err != nil {
		return nil, err
	}
	page, err := session.Process(c.text("exec_id")).Output(ctx, &sandkasten.OutputOptions{
		SinceSeq: c.number("since_seq", 0), MaxChunks: int(c.number("max_chunks", 0)), Wait: readWait,
	})
	if err != nil {
		return nil, err
	}
	a := readAnswer{
		Chunks: []chunk{}, Done: page.Done, NextSeq: page.NextSeq, DroppedBytes: page.Dropped, Status: running, ExitCode: page.ExitCode, Cause: page.Cause,
	}
	if page.ExitCode != nil {
		a.Status = completed
	}
	total := 0
	for _, one := range page.Chunks {
		shown, size, cut, err := newChunk(one, 2*c.set.opts.MaxBytes-total, c.flag("bytes", false))
		if err != nil {
			return nil, err
		}
		if size > 0 {
			a.Chunks = append(a.Chunks, shown)
		}
		total += size
		if cut { // the rest is for the next call
			a.Done, a.NextSeq = false, shown.Seq
			break
		}
	}
	return a, nil
}

// newChunk is a chunk as models are given it, of at most so many bytes, and how many it
// has. Its seq counts bytes, so a chunk can end anywhere.
func newChunk(one sandkasten.OutputChunk, most int, binary bool) (shown chunk, size int, cut bool, err error) {
	data, err := one.Bytes()
	if err != nil {
		return chunk{}, 0, false, fmt.Errorf("decode output: %w", err)
	}
	text := utf8.Valid(data) && !bytes.ContainsRune(data, 0)
	if binary = binary && !text; binary {
		most = most * 3 / 4
	}
	part := data
	if cut = len(data) > most; cut {
		part = data[:max(most, 0)]
		if whole := wholeRunes(part); len(whole) > 0 {
			part = whole
		}
	}
	shown = chunk{Seq: one.Seq - int64(len(data)-len(part)), Stream: one.Stream}
	if binary {
		shown.TextB64 = base64.StdEncoding.EncodeToString(part)
	} else {
		shown.Text, shown.Lossy = readable(part)
	}
	return shown, len(shown.Text) + len(shown.TextB64), cut, nil
}

type waitAnswer struct {
	Done     bool `json:"done"`
	ExitCode *int `json:"exit_code,omitempty"`
	ended
}

func execWaitTool(ctx context.Context, c *call) (any, error) {
	session, err := c.session(ctx)
	if err != nil {
		return nil, err
	}
	process := session.Process(c.text("exec_id"))
	waiting, cancel := context.WithTimeout(ctx, c.seconds("timeout_seconds", time.Minute))
	defer cancel()
	var detail sandkasten.ExecDetail
	err = tell(ctx, "waiting for "+process.ID, func() error {
		detail, err = process.Wait(waiting)
		return err
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return waitAnswer{ended: ended{Hint: "It is still running. Call again to go on waiting, or read its output with sandbox_exec_read."}}, nil
	}
	if err != nil {
		return nil, err
	}
	end, _ := detail.End()
	return waitAnswer{Done: true, ExitCode: &end.ExitCode, ended: newEnded(end)}, nil
}

type shellAnswer struct {
	ExecID    string `json:"exec_id"`
	ExitCode  int    `json:"exit_code"`
	Output    string `json:"output"`
	Lossy     bool   `json:"lossy,omitempty"`
	Truncated bool   `json:"truncated,omitempty"`
	Cwd       string `json:"cwd"`
	Restarted bool   `json:"shell_restarted,omitempty"`
	ended
}

func shellTool(ctx context.Context, c *call) (any, error) {
	session, err := c.session(ctx)
	if err != nil {
		return nil, err
	}
	options := sandkasten.ExecOptions{
		Timeout: c.seconds("timeout_seconds", c.set.opts.Timeout), Stdin: c.text("stdin"), Shell: c.text("shell"), OnDisconnect: "kill",
	}
	var r sandkasten.ExecResult
	err = tell(ctx, c.text("command"), func() error {
		r, err = session.Exec(ctx, c.text("command"), &options)
		return err
	})
	if err != nil {
		return nil, err
	}
	a := shellAnswer{ExecID: r.ExecID, ExitCode: r.ExitCode, Cwd: r.Cwd, Restarted: r.ShellRestarted, ended: newEnded(r.ExecEnd)}
	a.Hint = orElse(a.Hint, missingNetwork(ctx, session, r.ExitCode, r.Output))
	a.Output, a.Lossy, a.Truncated, err = stream(r.Output, r.OutputBase64, c.set.opts.MaxBytes, readOn(r.ExecEnd))
	if a.Lossy {
		a.Hint = orElse(a.Hint, oddBytes)
	}
	a.Truncated = a.Truncated || r.Truncated
	return a, err
}
