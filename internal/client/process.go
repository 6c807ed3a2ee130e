package client

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"time"
	"unicode/utf8"
)

// ProcessRequest is a program to run without a shell.
type ProcessRequest struct {
	Cmd        []string          `json:"cmd"`
	Cwd        string            `json:"cwd,omitempty"`
	Env        map[string]string `json:"env,omitempty"`
	User       string            `json:"user,omitempty"`       // a name or number, with :group if wanted
	OpenStdin  bool              `json:"open_stdin,omitempty"` // for Stdin
	TimeoutMS  int64             `json:"timeout_ms,omitempty"` // 0 takes the daemon's default, or none in the background
	TTY        bool              `json:"tty,omitempty"`
	Rows       uint16            `json:"rows,omitempty"`
	Cols       uint16            `json:"cols,omitempty"`
	RawOutput  bool              `json:"raw_output,omitempty"`
	OutputFile string            `json:"output_file,omitempty"`
}

// Process is a program that has ended, or has just begun in the background.
type Process struct {
	ID           string `json:"exec_id"`
	Status       string `json:"status"` // running, completed
	PID          int    `json:"pid,omitempty"`
	ExitCode     *int   `json:"exit_code,omitempty"`
	Cause        string `json:"cause,omitempty"`
	DurationMS   int64  `json:"duration_ms"`
	Stdout       string `json:"stdout,omitempty"`
	StdoutBase64 string `json:"stdout_base64,omitempty"` // where Stdout cannot say it
	Stderr       string `json:"stderr,omitempty"`
	StderrBase64 string `json:"stderr_base64,omitempty"`
	Output       string `json:"output,omitempty"` // of a terminal
	OutputBase64 string `json:"output_base64,omitempty"`
	Truncated    bool   `json:"truncated"`
	DroppedBytes int64  `json:"dropped_bytes"`
	Usage        *Usage `json:"usage,omitempty"`
}

// RunProcess runs a program and returns when it has ended.
func (c *Client) RunProcess(ctx context.Context, id string, req ProcessRequest) (Process, error) {
	var p Process
	err := c.call(ctx, http.MethodPost, sessionPath(id, "/processes"), req, &p)
	return p, err
}

// StartProcess starts a program and leaves it running.
func (c *Client) StartProcess(ctx context.Context, id string, req ProcessRequest) (Process, error) {
	var p Process
	background := struct {
		ProcessRequest
		Background bool `json:"background"`
	}{req, true}
	err := c.call(ctx, http.MethodPost, sessionPath(id, "/processes"), background, &p)
	return p, err
}

// ProcessStream runs a program and writes its output as it appears. Begun gets
// its id before that. When it fails after the program began, the program goes
// on.
func (c *Client) ProcessStream(ctx context.Context, id string, req ProcessRequest, out Streams, begun func(exec string)) (ExecResult, error) {
	httpReq, err := c.request(ctx, http.MethodPost, sessionPath(id, "/processes/stream"), req)
	if err != nil {
		return ExecResult{}, err
	}
	return c.stream(httpReq, out, begun)
}

// Stdin gives data to a process whose stdin is open, at most 1 MiB of it, and
// ends its stdin behind it if last is set. It returns how much the process
// took: less than all if it did not read for some seconds.
func (c *Client) Stdin(ctx context.Context, id, exec string, data []byte, last bool) (taken int, err error) {
	body := struct {
		Data   string `json:"data,omitempty"`
		Base64 string `json:"data_base64,omitempty"`
		Close  bool   `json:"close,omitempty"`
	}{Close: last}
	if utf8.Valid(data) {
		body.Data = string(data)
	} else {
		body.Base64 = base64.StdEncoding.EncodeToString(data)
	}
	var reply struct {
		Accepted int `json:"accepted_bytes"`
	}
	err = c.call(ctx, http.MethodPost, execPath(id, exec)+"/stdin", body, &reply)
	if err == nil && (reply.Accepted < 0 || reply.Accepted > len(data)) {
		err = fmt.Errorf("the daemon says that %d bytes of %d were taken", reply.Accepted, len(data))
	}
	return reply.Accepted, err
}

// Signal sends a signal, by name or number, to an exec.
func (c *Client) Signal(ctx context.Context, id, exec string, signal any) error {
	body := map[string]any{"signal": signal}
	return c.call(ctx, http.MethodPost, execPath(id, exec)+"/signal", body, nil)
}

// Wait returns an exec's record when it has ended, or as it is after timeout,
// which is at most 10 minutes.
func (c *Client) Wait(ctx context.Context, id, exec string, timeout time.Duration) (ExecRecord, error) {
	var r ExecRecord
	body := map[string]int64{"timeout_ms": max(timeout.Milliseconds(), 1)}
	err := c.call(ctx, http.MethodPost, execPath(id, exec)+"/wait", body, &r)
	return r, err
}

// Shell is one of a session's shells.
type Shell struct {
	Name      string    `json:"name"`
	State     string    `json:"state"` // idle, busy
	ExecID    string    `json:"exec_id,omitempty"`
	Queued    int       `json:"queued"`
	PID       int       `json:"pid,omitempty"`
	Cwd       string    `json:"cwd"`
	Restarts  int       `json:"restarts"`
	CreatedAt time.Time `json:"created_at"`
}

// Shells lists a session's shells by name.
func (c *Client) Shells(ctx context.Context, id string) ([]Shell, error) {
	var list []Shell
	err := c.call(ctx, http.MethodGet, sessionPath(id, "/shells"), nil, &list)
	return list, err
}

// CloseShell ends a shell and all that it started.
func (c *Client) CloseShell(ctx context.Context, id, name string) error {
	return c.call(ctx, http.MethodDelete, sessionPath(id, "/shells/", url.PathEscape(name)), nil, nil)
}
