package v1

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/sandkasten/sandkasten/internal/api/v1/shapes"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/protocol"
)

// ExecRecord is what a session knows of a command.
type ExecRecord struct {
	ExecID         string         `json:"exec_id" example:"f5q2bz7lq4m3k5n6p7r2s3t4u5"`
	Shell          string         `json:"shell" doc:"Empty for the default shell."`
	Command        string         `json:"cmd" doc:"Its first 256 bytes." example:"make test"`
	State          protocol.State `json:"state" enum:"queued,running,ended"`
	ExitCode       *int           `json:"exit_code,omitempty" doc:"When it has ended."`
	Cause          protocol.Cause `json:"cause,omitempty" doc:"When it has ended; see exec."`
	Signal         int            `json:"signal,omitempty"`
	TimedOut       bool           `json:"timed_out"`
	Cwd            string         `json:"cwd"`
	ShellRestarted bool           `json:"shell_restarted"`
	OutputBytes    int64          `json:"output_bytes" doc:"All that it has written until now."`
	StartedAt      *time.Time     `json:"started_at,omitempty"`
	DurationMS     int64          `json:"duration_ms"`
}

func recordOf(r session.ExecResult) ExecRecord {
	record := ExecRecord{
		ExecID: r.ID, Shell: r.Shell, Command: r.Command, State: r.State, Cause: r.Cause, Signal: r.Signal,
		TimedOut: r.Cause == protocol.CauseTimeout, Cwd: r.Cwd, ShellRestarted: r.ShellRestarted,
		OutputBytes: r.OutputBytes, DurationMS: r.DurationUS / 1000,
	}
	if r.StartedUnixMS > 0 {
		started := time.UnixMilli(r.StartedUnixMS).UTC()
		record.StartedAt = &started
	}
	if r.State == protocol.StateEnded {
		record.ExitCode = &r.ExitCode
	}
	return record
}

type execsOutput struct {
	Body []ExecRecord `nullable:"false"`
}

func (s *surface) listExecs(ctx context.Context, in *SessionPath) (*execsOutput, error) {
	id, err := s.find(ctx, *in)
	if err != nil {
		return nil, err
	}
	all, err := s.manager.Execs(ctx, id)
	if err != nil {
		return nil, err
	}
	out := &execsOutput{Body: make([]ExecRecord, 0, len(all))}
	for _, one := range all {
		out.Body = append(out.Body, recordOf(one))
	}
	return out, nil
}

// ExecPath is what every route of one command takes.
type ExecPath struct {
	SessionPath
	ExecID string `path:"exec_id" doc:"The command's id, as exec and the list of commands give it." example:"f5q2bz7lq4m3k5n6p7r2s3t4u5"`
}

// findExec returns the session and the record of a command that it knows.
func (s *surface) findExec(ctx context.Context, in ExecPath) (session.ID, session.ExecResult, error) {
	id, err := s.find(ctx, in.SessionPath)
	if err != nil {
		return "", session.ExecResult{}, err
	}
	record, err := s.execRecord(ctx, id, in.ExecID)
	return id, record, err
}

func (s *surface) execRecord(ctx context.Context, id session.ID, execID string) (session.ExecResult, error) {
	all, err := s.manager.Execs(ctx, id)
	if err != nil {
		return session.ExecResult{}, err
	}
	for _, record := range all {
		if record.ID == execID {
			return record, nil
		}
	}
	return session.ExecResult{}, errdefs.New(errdefs.NotFound, "no such exec; GET /v1/sessions/{id}/execs lists those that the session still knows")
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
	id, record, err := s.findExec(ctx, in.ExecPath)
	if err != nil {
		return nil, err
	}
	output := s.collector(in.RawOutput)
	wait := time.Duration(in.WaitMS) * time.Millisecond
	switch {
	case record.State == protocol.StateEnded:
		record, err = s.manager.Attach(ctx, id, in.ExecID, 0, output)
	case wait > 0:
		record, err = s.waitExec(ctx, id, in.ExecID, wait, output)
	default:
		err = s.replay(ctx, id, record, output)
	}
	if err != nil {
		return nil, err
	}
	text, err := output.text(record.OutputBytes)
	if err != nil {
		return nil, err
	}
	return &execDetailOutput{ExecDetail{ExecRecord: recordOf(record), Text: text}}, nil
}

// waitExec follows a command to its end, but no longer than wait.
func (s *surface) waitExec(ctx context.Context, id session.ID, execID string, wait time.Duration, out io.Writer) (session.ExecResult, error) {
	bounded, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	record, err := s.manager.Attach(bounded, id, execID, 0, out)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return s.execRecord(ctx, id, execID)
	}
	return record, err
}

// errReplayed ends an attachment that has caught up with its record.
var errReplayed = errors.New("replayed")

// replay writes what record says is kept of a command's output and does not
// wait for more.
func (s *surface) replay(ctx context.Context, id session.ID, record session.ExecResult, out io.Writer) error {
	kept := record.OutputBytes - record.DroppedBytes
	if kept <= 0 {
		return nil
	}
	_, err := s.manager.Attach(ctx, id, record.ID, 0, &firstBytes{out: out, left: kept})
	if errors.Is(err, errReplayed) {
		return nil
	}
	return err
}

// firstBytes passes on so many bytes and then fails with errReplayed.
type firstBytes struct {
	out  io.Writer
	left int64
}

func (f *firstBytes) Write(p []byte) (int, error) {
	n, err := f.out.Write(p[:min(int64(len(p)), f.left)])
	f.left -= int64(n)
	if err == nil && f.left == 0 {
		err = errReplayed
	}
	return n, err
}

func (s *surface) cancelExec(ctx context.Context, in *ExecPath) (*okOutput, error) {
	id, err := s.find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	if err := s.manager.CancelExec(ctx, id, in.ExecID); err != nil {
		return nil, err
	}
	return shapes.Done(), nil
}
