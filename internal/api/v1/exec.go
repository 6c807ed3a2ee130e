package v1

import (
	"context"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/execstream"
	"github.com/sandkasten/sandkasten/internal/api/v1/networks"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/ops"
	"github.com/sandkasten/sandkasten/protocol"
)

type execInput struct {
	SessionPath
	Body ExecRequest
}

// ExecRequest is a command for a session's shell.
type ExecRequest struct {
	Cmd       string `json:"cmd" minLength:"1" maxLength:"1048576" doc:"Shell code of at most 1 MiB, without NUL." example:"echo hi"`
	TimeoutMS int64  `json:"timeout_ms,omitempty" minimum:"0" maximum:"86400000" doc:"From its start. The default, which 0 is too, and the maximum are at /v1/info." example:"30000"`
	RawOutput bool   `json:"raw_output,omitempty" doc:"Leave the output as it is. Without it terminal control sequences are taken out and all of \\r\\n, \\r and \\n become \\n."`
	Stdin     string `json:"stdin,omitempty" maxLength:"1048576" doc:"What the command reads; without it, nothing."`
	OpenStdin bool   `json:"open_stdin,omitempty" doc:"Leave stdin open behind that, for stdin requests."`
	Shell     string `json:"shell,omitempty" minLength:"1" maxLength:"64" pattern:"^[A-Za-z0-9._-]+$" doc:"Another shell of the session, by name. Shells run beside each other. Without it, or as default, it is the one that every session has." example:"build"`

	Cwd          string            `json:"cwd,omitempty" minLength:"1" maxLength:"4096" doc:"Where the shell goes before the command, and stays as after cd; relative paths begin where it is. If it cannot go there the command does not run, and the answer has the shell's message and exit code." example:"src"`
	Env          map[string]string `json:"env,omitempty" doc:"Variables for this command alone; at most 1 MiB." example:"{\"LANG\":\"C\"}"`
	OnDisconnect string            `json:"on_disconnect,omitempty" enum:"continue,kill" doc:"What becomes of the command if the client goes away before its end. Without it, continue." example:"kill"`

	ExecID string `json:"exec_id,omitempty" pattern:"^[a-z2-7]{26}$" doc:"The command's id, chosen at random by a client that wants to cancel the command before an answer tells it. One that the session knows is a 409. Without it the daemon chooses one." example:"f5q2bz7lq4m3k5n6p7r2s3t4u5"`

	OutputFile string `json:"output_file,omitempty" maxLength:"4096" doc:"A file inside the sandbox that gets all of the output, beside what is kept for the answer. Made or replaced when the command starts." example:"logs/build.txt"`
}

func (r *ExecRequest) request() ops.ExecRequest {
	return ops.ExecRequest{
		ID:         r.ExecID,
		Command:    r.Cmd,
		Shell:      r.Shell,
		Stdin:      []byte(r.Stdin),
		OpenStdin:  r.OpenStdin,
		Timeout:    time.Duration(r.TimeoutMS) * time.Millisecond,
		OutputFile: r.OutputFile,
		Cwd:        r.Cwd,
		Env:        r.Env,
		Leaving:    r.OnDisconnect == "kill",
	}
}

// End is how a command ended.
type End struct {
	ExitCode       int            `json:"exit_code" doc:"128 and the signal's number if a signal ended it, 124 if its time was up." example:"0"`
	Cwd            string         `json:"cwd" doc:"Of the shell, after the command." example:"/workspace"`
	DurationMS     int64          `json:"duration_ms" example:"12"`
	ExecID         string         `json:"exec_id" example:"f5q2bz7lq4m3k5n6p7r2s3t4u5"`
	Cause          protocol.Cause `json:"cause" enum:"exited,signaled,timeout,oom_killed,shell_exited,canceled,sandbox_gone" doc:"exited: by itself. signaled: by a signal from inside. timeout: its time was up and all its processes were killed. oom_killed: the memory limit. shell_exited: it ended the shell. canceled: by cancel. sandbox_gone: the sandbox ended under it."`
	Signal         int            `json:"signal,omitempty" doc:"The number of the signal that ended it." example:"9"`
	TimedOut       bool           `json:"timed_out" doc:"The same as cause timeout."`
	DiskFull       bool           `json:"disk_full,omitempty" doc:"There, and true, if the exit code is not 0 and the session's disk or workspace had no room left when the command ended: at most 2 MiB, or no file. It need not be why."`
	ShellRestarted bool           `json:"shell_restarted" doc:"The command ran in a new shell, because the one before had ended. Directory and exported variables came along as far as known."`
	OutputBytes    int64          `json:"output_bytes" doc:"All that the command wrote, before anything was taken out." example:"3"`
	OutputFile     string         `json:"output_file,omitempty" doc:"Where all of the output is, if the request asked for it."`

	OutputFileError string `json:"output_file_error,omitempty" doc:"Why that has only the beginning of the output, as when the disk was full. The command was not told." example:"no space left in the sandbox: the file has only the beginning"`

	Usage *Usage `json:"usage,omitempty" doc:"Of a process."`

	NetworkDenied []networks.NetworkDenial `json:"network_denied,omitempty" nullable:"false" doc:"What the session's network refused while the command ran, by whichever program: the newest ten."`
}

// Usage is what a process and its descendants take.
type Usage struct {
	CPUMS       int64 `json:"cpu_ms" doc:"Time on a processor." example:"40"`
	MemoryBytes int64 `json:"memory_bytes" doc:"Resident now; after the end, the most that one of them had." example:"2097152"`
	Processes   int   `json:"processes" doc:"Now."`
}

func usageOf(u *protocol.Usage) *Usage {
	if u == nil {
		return nil
	}
	return &Usage{CPUMS: u.CPUUS / 1000, MemoryBytes: u.MemoryBytes, Processes: u.Processes}
}

// denied is what the network refused while a command or process ran.
func (s *surface) denied(ctx context.Context, id session.ID, r protocol.Record) []networks.NetworkDenial {
	if r.StartedUnixMS == 0 {
		return nil
	}
	return s.networks.Denied(ctx, id, time.UnixMilli(r.StartedUnixMS))
}

func (s *surface) endOf(ctx context.Context, id session.ID, r protocol.Record) End {
	return End{
		NetworkDenied: s.denied(ctx, id, r),

		ExitCode: r.ExitCode, Cwd: r.Cwd, DurationMS: r.DurationUS / 1000, ExecID: r.ID,
		Cause: r.Cause, Signal: r.Signal, TimedOut: r.Cause == protocol.CauseTimeout, DiskFull: r.DiskFull,
		ShellRestarted: r.ShellRestarted, OutputBytes: r.OutputBytes, OutputFile: r.OutputFile, OutputFileError: r.OutputFileError, Usage: usageOf(r.Usage),
	}
}

// Text is a command's output in an answer.
type Text struct {
	Output         string `json:"output" doc:"Standard output and standard error together." example:"hi\n"`
	OutputEncoding string `json:"output_encoding" enum:"utf-8,base64" doc:"base64: the output is not valid UTF-8. output_base64 has its bytes, and output has U+FFFD for what is wrong."`
	OutputBase64   string `json:"output_base64,omitempty"`
	Truncated      bool   `json:"truncated" doc:"Something is missing from output. A line in it says where and how much, but for what a control string without an end hides."`
	DroppedBytes   int64  `json:"dropped_bytes" doc:"How much is missing."`
}

// ExecResponse is a command that has ended.
type ExecResponse struct {
	End
	Text
}

func (s *surface) collector(raw bool) *execstream.Collector {
	return execstream.NewCollector(s.opts.OutputBytes, raw)
}

// textOf is what was collected of a command that wrote total bytes until now.
func textOf(c *execstream.Collector, total int64) (Text, error) {
	kept, missing, err := c.Bytes()
	if err != nil {
		return Text{}, err
	}
	dropped := missing + max(0, total-c.Taken())
	text := Text{OutputEncoding: "utf-8", Truncated: dropped > 0, DroppedBytes: dropped}
	text.Output, text.OutputBase64 = execstream.Encoded(kept)
	if text.OutputBase64 != "" {
		text.OutputEncoding = "base64"
	}
	return text, nil
}

type execOutput struct{ Body ExecResponse }

func (s *surface) exec(ctx context.Context, in *execInput) (*execOutput, error) {
	id, err := s.find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	output := s.collector(in.Body.RawOutput)
	result, err := s.manager.Execs.Run(ctx, api.Caller(ctx), string(id), in.Body.request(), output)
	if err != nil {
		return nil, err
	}
	s.metrics.Ran(result)
	text, err := textOf(output, result.OutputBytes)
	if err != nil {
		return nil, err
	}
	return &execOutput{ExecResponse{End: s.endOf(ctx, id, result), Text: text}}, nil
}
