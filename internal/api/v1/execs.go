package v1

import (
	"context"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/v1/contract"
	"github.com/sandkasten/sandkasten/internal/session/ops"
	"github.com/sandkasten/sandkasten/protocol"
)

// ExecRecord is what a session knows of a command or a process.
type ExecRecord struct {
	ExecID         string         `json:"exec_id" example:"f5q2bz7lq4m3k5n6p7r2s3t4u5"`
	Kind           string         `json:"kind" enum:"shell,process" doc:"A command of a shell, or a process of its own."`
	Shell          string         `json:"shell" doc:"Empty for a process." example:"default"`
	Command        string         `json:"cmd" doc:"Its first 256 bytes." example:"make test"`
	State          protocol.State `json:"state" enum:"queued,running,ended" example:"running"`
	WaitsFor       *WaitsFor      `json:"waits_for,omitempty" doc:"Of a queued command: the one that its shell runs."`
	ExitCode       *int           `json:"exit_code,omitempty" doc:"When it has ended."`
	Cause          protocol.Cause `json:"cause,omitempty" doc:"When it has ended; see exec."`
	Signal         int            `json:"signal,omitempty"`
	TimedOut       bool           `json:"timed_out"`
	DiskFull       bool           `json:"disk_full,omitempty" doc:"As in exec."`
	Cwd            string         `json:"cwd" example:"/workspace"`
	ShellRestarted bool           `json:"shell_restarted"`
	OutputBytes    int64          `json:"output_bytes" doc:"All that it has written until now." example:"3"`
	StartedAt      *time.Time     `json:"started_at,omitempty"`
	DurationMS     int64          `json:"duration_ms" example:"12"`
	PID            int            `json:"pid,omitempty" doc:"Of a process, inside the sandbox." example:"42"`
	TTY            bool           `json:"tty,omitempty" doc:"The process has a terminal."`
	OutputFile     string         `json:"output_file,omitempty" doc:"Where all of the output is, if the request asked for it."`
	Usage          *Usage         `json:"usage,omitempty" doc:"Of a process."`

	OutputFileError string `json:"output_file_error,omitempty" doc:"As in exec."`
}

// WaitsFor is a command behind which others wait.
type WaitsFor struct {
	ExecID  string `json:"exec_id" example:"f5q2bz7lq4m3k5n6p7r2s3t4u5"`
	Command string `json:"cmd" doc:"Its first 256 bytes." example:"make test"`
}

// waitsFor is what r waits for, if that is among all.
func waitsFor(r protocol.Record, all []protocol.Record) *WaitsFor {
	if r.State != protocol.StateQueued {
		return nil
	}
	for _, other := range all {
		if other.State == protocol.StateRunning && other.Kind == protocol.KindShell && other.Shell == r.Shell {
			return &WaitsFor{other.ID, other.Command}
		}
	}
	return nil
}

func recordOf(r protocol.Record) ExecRecord {
	record := ExecRecord{
		ExecID: r.ID, Kind: "shell", Shell: shellName(r.Shell), Command: r.Command, State: r.State, Cause: r.Cause, Signal: r.Signal,
		TimedOut: r.Cause == protocol.CauseTimeout, DiskFull: r.DiskFull, Cwd: r.Cwd, ShellRestarted: r.ShellRestarted,
		OutputBytes: r.OutputBytes, StartedAt: startedAt(r), DurationMS: r.DurationUS / 1000,
		PID: r.PID, TTY: r.TTY, OutputFile: r.OutputFile, OutputFileError: r.OutputFileError, Usage: usageOf(r.Usage),
	}
	if r.Kind == protocol.KindProcess {
		record.Kind, record.Shell = "process", ""
	}
	if r.State == protocol.StateEnded {
		record.ExitCode = &r.ExitCode
	}
	return record
}

// startedAt is nil for what waits for its shell.
func startedAt(r protocol.Record) *time.Time {
	if r.StartedUnixMS <= 0 {
		return nil
	}
	started := time.UnixMilli(r.StartedUnixMS).UTC()
	return &started
}

type execsOutput struct {
	Body []ExecRecord `nullable:"false"`
}

func (s *surface) listExecs(ctx context.Context, in *SessionPath) (*execsOutput, error) {
	return s.records(ctx, in, func(protocol.Record) bool { return true })
}

func (s *surface) listProcesses(ctx context.Context, in *SessionPath) (*execsOutput, error) {
	return s.records(ctx, in, func(r protocol.Record) bool { return r.Kind == protocol.KindProcess })
}

func (s *surface) records(ctx context.Context, in *SessionPath, wanted func(protocol.Record) bool) (*execsOutput, error) {
	id, err := s.find(ctx, *in)
	if err != nil {
		return nil, err
	}
	all, err := s.manager.Execs.List(ctx, api.Caller(ctx), string(id))
	if err != nil {
		return nil, err
	}
	out := &execsOutput{Body: make([]ExecRecord, 0, len(all))}
	for _, one := range all {
		if wanted(one) {
			record := recordOf(one)
			record.WaitsFor = waitsFor(one, all)
			out.Body = append(out.Body, record)
		}
	}
	return out, nil
}

// ExecPath is what every route of one command or process takes.
type ExecPath struct {
	SessionPath
	ExecID string `path:"exec_id" doc:"The command's id, as exec and the list of commands give it." example:"f5q2bz7lq4m3k5n6p7r2s3t4u5"`
}

type getExecInput struct {
	ExecPath
	WaitMS    int64 `query:"wait_ms" minimum:"0" maximum:"600000" doc:"How long to wait for its end."`
	RawOutput bool  `query:"raw_output" doc:"Leave the output as it is; see exec."`
}

// ExecDetail is a command with its output until now.
type ExecDetail struct {
	ExecRecord
	Text
}

type execDetailOutput struct{ Body ExecDetail }

func (s *surface) getExec(ctx context.Context, in *getExecInput) (*execDetailOutput, error) {
	id, err := s.find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	if in.WaitMS > 0 {
		record, err := s.manager.Execs.Wait(ctx, api.Caller(ctx), string(id), in.ExecID, time.Duration(in.WaitMS)*time.Millisecond)
		if err != nil {
			return nil, err
		}
		if record.Cause == protocol.CauseSandboxGone { // with its output
			return &execDetailOutput{ExecDetail{ExecRecord: recordOf(record), Text: Text{OutputEncoding: "utf-8"}}}, nil
		}
	}
	output := s.collector(in.RawOutput)
	record, _, err := s.manager.Execs.Read(ctx, api.Caller(ctx), string(id), in.ExecID, ops.ReadRequest{}, output)
	if err != nil {
		return nil, err
	}
	text, err := textOf(output, record.OutputBytes)
	if err != nil {
		return nil, err
	}
	detail := ExecDetail{ExecRecord: recordOf(record), Text: text}
	if record.State == protocol.StateQueued {
		all, err := s.manager.Execs.List(ctx, api.Caller(ctx), string(id))
		if err != nil {
			return nil, err
		}
		detail.WaitsFor = waitsFor(record, all)
	}
	return &execDetailOutput{detail}, nil
}

func (s *surface) cancelExec(ctx context.Context, in *ExecPath) (*okOutput, error) {
	id, err := s.find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	if err := s.manager.Execs.Cancel(ctx, api.Caller(ctx), string(id), in.ExecID); err != nil {
		return nil, err
	}
	return contract.Done(), nil
}
