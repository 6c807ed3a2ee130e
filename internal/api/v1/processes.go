package v1

import (
	"context"
	"net/http"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/execstream"
	"github.com/sandkasten/sandkasten/internal/api/v1/networks"
	"github.com/sandkasten/sandkasten/internal/session/ops"
	"github.com/sandkasten/sandkasten/protocol"
)

type processInput struct {
	SessionPath
	Body ProcessRequest
}

// ProcessRequest is a program to run without a shell.
type ProcessRequest struct {
	Cmd          []string          `json:"cmd" nullable:"false" minItems:"1" maxItems:"262144" doc:"The program, looked up in PATH, and its arguments, without NUL: 128 KiB each, and 2 MiB together with the variables, which is what the kernel takes." example:"[\"python3\",\"-c\",\"print(1)\"]"`
	Cwd          string            `json:"cwd,omitempty" maxLength:"4096" doc:"Relative paths begin at /workspace, which is also the default." example:"src"`
	Env          map[string]string `json:"env,omitempty" doc:"Added to the session's variables; see cmd for how much."`
	Stdin        string            `json:"stdin,omitempty" maxLength:"1048576" doc:"What the program reads; without it, nothing."`
	StdinBase64  string            `json:"stdin_base64,omitempty" maxLength:"1398104" contentEncoding:"base64" doc:"Bytes instead of text."`
	OpenStdin    bool              `json:"open_stdin,omitempty" doc:"Leave stdin open behind that, for stdin requests."`
	User         string            `json:"user,omitempty" maxLength:"129" doc:"A name or number, with :group if wanted. Without it, the sandbox's own." example:"1000:1000"`
	TimeoutMS    int64             `json:"timeout_ms,omitempty" minimum:"0" maximum:"86400000" doc:"Default and maximum are at /v1/info. In the background there is none without it, or with 0." example:"30000"`
	TTY          bool              `json:"tty,omitempty" doc:"Run on a terminal: one output instead of two, and stdin open."`
	Rows         uint16            `json:"rows,omitempty" minimum:"1" maximum:"4096" doc:"Of the terminal; 24 without it."`
	Cols         uint16            `json:"cols,omitempty" minimum:"1" maximum:"4096" doc:"Of the terminal; 80 without it."`
	Background   bool              `json:"background,omitempty" doc:"Answer as soon as it runs."`
	Stderr       string            `json:"stderr,omitempty" enum:"separate,merged" doc:"merged: one output for both, in the order in which they were written; the answer has output then, and chunks say no stream. Without it, separate." example:"merged"`
	OnDisconnect string            `json:"on_disconnect,omitempty" enum:"continue,kill" doc:"As in exec; not of one in the background." example:"kill"`
	ExecID       string            `json:"exec_id,omitempty" pattern:"^[a-z2-7]{26}$" doc:"As in exec." example:"f5q2bz7lq4m3k5n6p7r2s3t4u5"`
	OutputFile   string            `json:"output_file,omitempty" maxLength:"4096" doc:"As in exec." example:"logs/build.txt"`
	RawOutput    bool              `json:"raw_output,omitempty" doc:"As in exec."`
}

func (r *ProcessRequest) request() (ops.ProcessRequest, error) {
	stdin, err := textOrBase64("stdin", r.Stdin, r.StdinBase64)
	if err != nil {
		return ops.ProcessRequest{}, err
	}
	req := ops.ProcessRequest{
		ID: r.ExecID, Args: r.Cmd, Env: r.Env, Cwd: r.Cwd, User: r.User, Stdin: stdin, OpenStdin: r.OpenStdin,
		Timeout: time.Duration(r.TimeoutMS) * time.Millisecond, OutputFile: r.OutputFile,
		Merged: r.Stderr == "merged", Leaving: r.OnDisconnect == "kill",
	}
	if r.TTY {
		req.Terminal = &ops.TerminalSize{Rows: r.Rows, Cols: r.Cols}
		if r.Rows == 0 {
			req.Terminal.Rows = defaultRows
		}
		if r.Cols == 0 {
			req.Terminal.Cols = defaultCols
		}
	}
	return req, nil
}

// ProcessResponse is a process that has ended, or one that has just begun.
type ProcessResponse struct {
	ExecID     string         `json:"exec_id" example:"f5q2bz7lq4m3k5n6p7r2s3t4u5"`
	Status     string         `json:"status" enum:"running,completed" doc:"running only in the background."`
	PID        int            `json:"pid,omitempty" doc:"Inside the sandbox." example:"42"`
	ExitCode   *int           `json:"exit_code,omitempty" doc:"As in exec; this and what follows, when it has ended." example:"0"`
	Cause      protocol.Cause `json:"cause,omitempty" enum:"exited,signaled,timeout,oom_killed,canceled,sandbox_gone" doc:"As in exec."`
	Signal     int            `json:"signal,omitempty" doc:"The number of the signal that ended it." example:"9"`
	TimedOut   bool           `json:"timed_out" doc:"The same as cause timeout."`
	DiskFull   bool           `json:"disk_full,omitempty" doc:"As in exec."`
	DurationMS int64          `json:"duration_ms" example:"12"`

	Stdout         string  `json:"stdout" doc:"Standard output; empty in the background, with a terminal and of merged outputs." example:"1\n"`
	StdoutEncoding string  `json:"stdout_encoding,omitempty" enum:"base64" doc:"There if it is not valid UTF-8: stdout_base64 has its bytes."`
	StdoutBase64   string  `json:"stdout_base64,omitempty"`
	Stderr         string  `json:"stderr" doc:"Standard error, as stdout."`
	StderrEncoding string  `json:"stderr_encoding,omitempty" enum:"base64"`
	StderrBase64   string  `json:"stderr_base64,omitempty"`
	Output         *string `json:"output,omitempty" doc:"With a terminal, what it showed, and of merged outputs, instead of the two."`
	OutputEncoding string  `json:"output_encoding,omitempty" enum:"base64"`
	OutputBase64   string  `json:"output_base64,omitempty"`

	Truncated    bool   `json:"truncated" doc:"Something is missing from the output. A line in it says where and how much, but for what a control string without an end hides."`
	DroppedBytes int64  `json:"dropped_bytes" doc:"How much is missing."`
	OutputBytes  int64  `json:"output_bytes" doc:"All that it wrote, before anything was taken out."`
	OutputFile   string `json:"output_file,omitempty" doc:"Where all of the output is, if the request asked for it."`
	Usage        *Usage `json:"usage,omitempty"`

	OutputFileError string `json:"output_file_error,omitempty" doc:"As in exec."`

	NetworkDenied []networks.NetworkDenial `json:"network_denied,omitempty" nullable:"false" doc:"As in exec."`
}

type processOutput struct {
	Status int
	Body   ProcessResponse
}

func (s *surface) startProcess(ctx context.Context, in *processInput) (*processOutput, error) {
	id, err := s.find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	req, err := in.Body.request()
	if err != nil {
		return nil, err
	}
	if in.Body.Background {
		record, err := s.manager.Execs.StartProcess(ctx, api.Caller(ctx), string(id), req)
		if err != nil {
			return nil, err
		}
		return &processOutput{http.StatusCreated, ProcessResponse{ExecID: record.ID, Status: "running", PID: record.PID}}, nil
	}
	output := s.streams(in.Body.RawOutput)
	record, err := s.manager.Execs.RunProcess(ctx, api.Caller(ctx), string(id), req, output)
	if err != nil {
		return nil, err
	}
	s.metrics.Ran(record)
	body := ProcessResponse{
		ExecID: record.ID, Status: "completed", PID: record.PID, ExitCode: &record.ExitCode, Cause: record.Cause, Signal: record.Signal,
		TimedOut: record.Cause == protocol.CauseTimeout, DiskFull: record.DiskFull, DurationMS: record.DurationUS / 1000,
		OutputBytes: record.OutputBytes, OutputFile: record.OutputFile, OutputFileError: record.OutputFileError, Usage: usageOf(record.Usage),
		NetworkDenied: s.denied(ctx, id, record),
	}
	if err := output.fill(&body, in.Body.TTY || req.Merged); err != nil {
		return nil, err
	}
	return &processOutput{http.StatusOK, body}, nil
}

// streams takes a process's output for one answer, each stream by itself. It
// is a runnerclient.Sink.
type streams struct {
	each map[protocol.Stream]*execstream.Collector
	now  *execstream.Collector // of the bytes to come
}

func (s *surface) streams(raw bool) *streams {
	t := &streams{each: make(map[protocol.Stream]*execstream.Collector)}
	for _, name := range []protocol.Stream{protocol.StreamOutput, protocol.StreamStdout, protocol.StreamStderr} {
		t.each[name] = s.collector(raw)
	}
	return t
}

// At is told which stream the next bytes are of.
func (t *streams) At(stream protocol.Stream, _ int64) {
	t.now = t.each[stream]
}

// Write takes them.
func (t *streams) Write(p []byte) (int, error) { return t.now.Write(p) }

// fill puts the output into the answer.
func (t *streams) fill(r *ProcessResponse, one bool) error {
	dropped := r.OutputBytes
	put := func(stream protocol.Stream, text, encoding, inBase64 *string) error {
		c := t.each[stream]
		kept, missing, err := c.Bytes()
		if err != nil {
			return err
		}
		dropped += missing - c.Taken()
		*text, *inBase64 = execstream.Encoded(kept)
		if *inBase64 != "" {
			*encoding = "base64"
		}
		return nil
	}
	if one {
		r.Output = new(string)
		if err := put(protocol.StreamOutput, r.Output, &r.OutputEncoding, &r.OutputBase64); err != nil {
			return err
		}
	} else {
		if err := put(protocol.StreamStdout, &r.Stdout, &r.StdoutEncoding, &r.StdoutBase64); err != nil {
			return err
		}
		if err := put(protocol.StreamStderr, &r.Stderr, &r.StderrEncoding, &r.StderrBase64); err != nil {
			return err
		}
	}
	r.DroppedBytes = max(0, dropped)
	r.Truncated = r.DroppedBytes > 0
	return nil
}
