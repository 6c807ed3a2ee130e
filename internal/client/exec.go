package client

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// ExecRequest is one command for a session's shell.
type ExecRequest struct {
	Cmd       string `json:"cmd"`
	TimeoutMS int64  `json:"timeout_ms,omitempty"` // 0 takes the daemon's default
	RawOutput bool   `json:"raw_output,omitempty"` // keep escape sequences and line ends as written
	Stdin     string `json:"stdin,omitempty"`      // at most 1 MiB
	Shell     string `json:"shell,omitempty"`      // empty is the default shell

	OutputFile string `json:"output_file,omitempty"` // in the sandbox, for all of the output
}

// ExecResult is how a command ended.
type ExecResult struct {
	ID             string `json:"exec_id"`
	ExitCode       int    `json:"exit_code"`
	Cause          string `json:"cause"` // exited, signaled, timeout, oom_killed, shell_exited, canceled, sandbox_gone
	Cwd            string `json:"cwd"`
	ShellRestarted bool   `json:"shell_restarted"`
	OutputBytes    int64  `json:"output_bytes"`
	DurationMS     int64  `json:"duration_ms"`

	Text
}

// ExecRecord is one command or process as the session remembers it.
type ExecRecord struct {
	ID             string    `json:"exec_id"`
	Kind           string    `json:"kind"`  // shell, process
	Shell          string    `json:"shell"` // empty for a process
	Command        string    `json:"cmd"`   // its beginning
	State          string    `json:"state"` // queued, running, ended
	ExitCode       *int      `json:"exit_code,omitempty"`
	Cause          string    `json:"cause,omitempty"`
	Cwd            string    `json:"cwd"`
	ShellRestarted bool      `json:"shell_restarted"`
	OutputBytes    int64     `json:"output_bytes"`
	StartedAt      time.Time `json:"started_at,omitzero"`
	DurationMS     int64     `json:"duration_ms"`
	PID            int       `json:"pid,omitempty"`
	TTY            bool      `json:"tty,omitempty"`
	Usage          *Usage    `json:"usage,omitempty"`
}

// Result is how the exec ended, if it has.
func (r ExecRecord) Result() ExecResult {
	result := ExecResult{ID: r.ID, Cause: r.Cause, Cwd: r.Cwd, OutputBytes: r.OutputBytes, DurationMS: r.DurationMS}
	if r.ExitCode != nil {
		result.ExitCode = *r.ExitCode
	}
	return result
}

// Usage is what a process and its descendants take.
type Usage struct {
	CPUMS       int64 `json:"cpu_ms"`
	MemoryBytes int64 `json:"memory_bytes"`
	Processes   int   `json:"processes"`
}

// ExecDetail is a command with what is kept of its output.
type ExecDetail struct {
	ExecRecord
	Text
}

// Text is a command's output in an answer. A stream leaves all but
// DroppedBytes empty.
type Text struct {
	Output       string `json:"output"`
	Base64       string `json:"output_base64,omitempty"` // where Output cannot say it
	Truncated    bool   `json:"truncated"`
	DroppedBytes int64  `json:"dropped_bytes"`
}

// Bytes is the output as it was written.
func (t Text) Bytes() ([]byte, error) { return textOrBase64(t.Output, t.Base64) }

func textOrBase64(text, encoded string) ([]byte, error) {
	if encoded == "" {
		return []byte(text), nil
	}
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("decode output: %w", err)
	}
	return data, nil
}

// Exec runs a command and returns when it has ended. An exit code that is
// not zero is not an error.
func (c *Client) Exec(ctx context.Context, id string, req ExecRequest) (ExecResult, error) {
	var r ExecResult
	err := c.call(ctx, http.MethodPost, sessionPath(id, "/exec"), req, &r)
	return r, err
}

// Streams takes the output of an exec. A shell's command and a terminal have
// only Stdout.
type Streams struct{ Stdout, Stderr io.Writer }

// ExecStream is Exec that writes output to out as it appears. When it fails
// after the command began, the result has the command's id: it goes on, and
// CancelExec ends it.
func (c *Client) ExecStream(ctx context.Context, id string, req ExecRequest, out io.Writer) (ExecResult, error) {
	httpReq, err := c.request(ctx, http.MethodPost, sessionPath(id, "/exec/stream"), req)
	if err != nil {
		return ExecResult{}, err
	}
	return c.stream(httpReq, Streams{Stdout: out}, nil)
}

// Follow writes the output of an exec that was started before from its
// beginning on, and returns its end. What is not kept any more is counted.
func (c *Client) Follow(ctx context.Context, id, exec string, out Streams) (ExecResult, error) {
	httpReq, err := c.request(ctx, http.MethodGet, execPath(id, exec)+"/stream?raw_output=true", nil)
	if err != nil {
		return ExecResult{}, err
	}
	return c.stream(httpReq, out, nil)
}

// stream makes a request that events answer. Begun, which may be nil, gets the
// exec's id before its output.
func (c *Client) stream(req *http.Request, out Streams, begun func(exec string)) (result ExecResult, err error) {
	req.Header.Set("Accept", "text/event-stream")
	resp, err := c.send(req)
	if err != nil {
		return ExecResult{}, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	result, err = followStream(resp.Body, out, begun)
	if cause := context.Cause(req.Context()); err != nil && cause != nil {
		return result, cause
	}
	return result, err
}

// chunk is the data of a chunk event. Bytes that are not text come encoded.
type chunk struct {
	Text   string `json:"chunk"`
	Base64 string `json:"chunk_base64"`
	Stream string `json:"stream"`
}

// followStream writes chunks to out until the one event that ends the stream.
func followStream(body io.Reader, out Streams, begun func(exec string)) (result ExecResult, err error) {
	for e, err := range events(body) {
		if err != nil {
			return result, err
		}
		switch e.name {
		case "start", "done":
			if err := json.Unmarshal(e.data, &result); err != nil {
				return result, fmt.Errorf("decode event %s: %w", e.name, err)
			}
			if e.name == "done" {
				return result, nil
			}
			if begun != nil {
				begun(result.ID)
			}
		case "chunk":
			if err := writeChunk(out, e.data); err != nil {
				return result, err
			}
		case "error":
			failure := &Error{Status: http.StatusOK}
			if err := json.Unmarshal(e.data, failure); err != nil {
				return result, fmt.Errorf("decode error: %w", err)
			}
			return result, failure
		}
	}
	return result, errors.New("the daemon closed the stream before the command ended; `sandkasten logs` shows how it went on")
}

func writeChunk(out Streams, data []byte) error {
	var k chunk
	if err := json.Unmarshal(data, &k); err != nil {
		return fmt.Errorf("decode output: %w", err)
	}
	text, err := textOrBase64(k.Text, k.Base64)
	if err != nil {
		return err
	}
	w := out.Stdout
	if k.Stream == "stderr" {
		w = out.Stderr
	}
	if _, err := w.Write(text); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// Execs lists the commands and processes that a session remembers, oldest
// first.
func (c *Client) Execs(ctx context.Context, id string) ([]ExecRecord, error) {
	var list []ExecRecord
	err := c.call(ctx, http.MethodGet, sessionPath(id, "/execs"), nil, &list)
	return list, err
}

// ExecOutput returns one command with what is kept of its output, as it was
// written.
func (c *Client) ExecOutput(ctx context.Context, id, exec string) (ExecDetail, error) {
	var r ExecDetail
	err := c.call(ctx, http.MethodGet, execPath(id, exec)+"?raw_output=true", nil, &r)
	return r, err
}

// CancelExec ends a command the way a timeout does. One that has ended is not
// an error.
func (c *Client) CancelExec(ctx context.Context, id, exec string) error {
	return c.call(ctx, http.MethodPost, execPath(id, exec)+"/cancel", nil, nil)
}

func execPath(id, exec string) string {
	return sessionPath(id, "/execs/", url.PathEscape(exec))
}
