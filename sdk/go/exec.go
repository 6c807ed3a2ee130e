package sandkasten

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"time"
)

// ExecOptions says how a command runs.
type ExecOptions struct {
	Timeout    time.Duration `json:"-"`                     // after which it is ended; whole milliseconds
	Stdin      string        `json:"stdin,omitempty"`       // what it reads; at most 1 MiB
	OpenStdin  bool          `json:"open_stdin,omitempty"`  // for WriteStdin of Session.Process, with the id that ExecStream.OnStart gets
	Shell      string        `json:"shell,omitempty"`       // another shell of the session, made if it is missing
	OutputFile string        `json:"output_file,omitempty"` // in the sandbox, for all of the output
	RawOutput  bool          `json:"raw_output,omitempty"`  // keep escape sequences and line ends as written

	Cwd          string            `json:"cwd,omitempty"`           // where the shell goes first, and stays
	Env          map[string]string `json:"env,omitempty"`           // for this command alone
	OnDisconnect string            `json:"on_disconnect,omitempty"` // kill: it ends when the connection breaks, too
	ExecID       string            `json:"exec_id,omitempty"`       // 26 random characters of a-z and 2-7; empty is a new one
}

// ExecEnd is how a command ended.
type ExecEnd struct {
	ExecID         string `json:"exec_id"`
	ExitCode       int    `json:"exit_code"`        // 128 and the signal's number; 124 if it was out of time
	Cause          string `json:"cause"`            // exited, signaled, timeout, oom_killed, shell_exited, canceled, sandbox_gone
	Signal         int    `json:"signal,omitempty"` // that ended it
	TimedOut       bool   `json:"timed_out"`
	DiskFull       bool   `json:"disk_full,omitempty"` // it failed, and the disk or the workspace had no room left then
	Cwd            string `json:"cwd"`                 // of the shell, after the command
	ShellRestarted bool   `json:"shell_restarted"`     // before the command: variables and jobs are gone
	OutputBytes    int64  `json:"output_bytes"`
	DroppedBytes   int64  `json:"dropped_bytes"` // that this answer, or stream, lacks
	OutputFile     string `json:"output_file,omitempty"`

	OutputFileError string `json:"output_file_error,omitempty"` // why that has only the beginning of the output

	DurationMS int64  `json:"duration_ms"`
	Usage      *Usage `json:"usage,omitempty"`

	// NetworkDenied is what the session's network refused meanwhile, to whichever
	// program: the newest ten.
	NetworkDenied []NetworkDenial `json:"network_denied,omitempty"`
}

// Duration is how long the command took.
func (e ExecEnd) Duration() time.Duration { return time.Duration(e.DurationMS) * time.Millisecond }

// Usage is what a process and its descendants take.
type Usage struct {
	CPUMS       int64 `json:"cpu_ms"`
	MemoryBytes int64 `json:"memory_bytes"`
	Processes   int   `json:"processes"`
}

// Text is what a command wrote. A long one has its head and its tail, and says
// in between what is left out.
type Text struct {
	Output         string `json:"output"` // U+FFFD stands for what is not UTF-8
	OutputBase64   string `json:"output_base64,omitempty"`
	OutputEncoding string `json:"output_encoding"` // utf-8 or base64
	Truncated      bool   `json:"truncated"`
}

// Bytes is the output exactly as it was written.
func (t Text) Bytes() ([]byte, error) { return exact(t.Output, t.OutputBase64) }

// exact is what text stands for, which is encoded where no text could say it.
func exact(text, encoded string) ([]byte, error) {
	if encoded == "" {
		return []byte(text), nil
	}
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("decode output: %w", err)
	}
	return data, nil
}

// ExecResult is how a command ended, with its output.
type ExecResult struct {
	ExecEnd
	Text
}

type execRequest struct {
	Cmd       string `json:"cmd"`
	TimeoutMS int64  `json:"timeout_ms,omitempty"`
	ExecOptions
}

func newExecRequest(cmd string, o *ExecOptions) execRequest {
	options := value(o)
	options.ExecID = cmp.Or(options.ExecID, newExecID())
	return execRequest{cmd, options.Timeout.Milliseconds(), options}
}

// Exec runs a command in the session's shell, which keeps its directory,
// variables and jobs from one to the next, and returns when it has ended. An exit
// code that is not zero is not an error, nor is a timeout. When ctx ends first, so does
// the command; when the connection breaks, the command goes on.
func (s *Session) Exec(ctx context.Context, cmd string, o *ExecOptions) (ExecResult, error) {
	body := newExecRequest(cmd, o)
	var result ExecResult
	err := s.run(ctx, "/exec", body.ExecID, body, &result)
	return result, err
}

// ExecStream runs a command whose output is there as it is written. It begins with
// the first use of the stream.
func (s *Session) ExecStream(cmd string, o *ExecOptions) *ExecStream {
	body := newExecRequest(cmd, o)
	return &ExecStream{session: s, raw: body.RawOutput, first: post(s.path+"/exec/stream", body), own: body.ExecID}
}

// AttachOptions says how a command is followed.
type AttachOptions struct {
	RawOutput bool // keep escape sequences and line ends as written
}

// Attach follows a command or process that was started before, from its start on.
func (s *Session) Attach(execID string, o *AttachOptions) *ExecStream {
	return &ExecStream{session: s, raw: value(o).RawOutput, execID: execID}
}
