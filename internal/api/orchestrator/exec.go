package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/execstream"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/ops"
	"github.com/sandkasten/sandkasten/protocol"
)

// ran is the answer to a command, and, but for the time, to an upload.
type ran struct {
	ExitCode    int      `json:"exit_code"`
	Stdout      string   `json:"stdout"`
	Stderr      string   `json:"stderr"`
	DurationSec *float64 `json:"duration_sec,omitempty"`
}

// timedOut is the exit code of a command whose time was up, as of timeout(1).
const timedOut = 124

type ranOutput struct{ Body ran }

func (s *surface) exec(ctx context.Context, in *execInput) (*ranOutput, error) {
	req := ops.ProcessRequest{Args: shell(in.Body.Cwd, string(in.Body.Command)), Timeout: time.Duration(in.Body.Timeout) * time.Second, Leaving: ops.Kill}
	_, maxima, _ := s.manager.Sessions.Limits(api.Caller(ctx))
	if most := maxima.ExecTimeout; req.Timeout > most {
		return nil, fieldErrors{"timeout_sec": {fmt.Sprintf("Ensure this value is less than or equal to %d.", int64(most/time.Second))}}
	} else if req.Timeout == 0 {
		req.Timeout = most
	}
	output := newOutputs(s.opts.OutputBytes)
	var record protocol.Record
	err := s.sessions.Change(ctx, api.Caller(ctx), in.session.ID, func(p auth.Principal, id session.ID) (err error) {
		record, err = s.manager.Execs.RunProcess(ctx, p, string(id), req, output)
		return err
	})
	if err != nil {
		return nil, useError(err)
	}
	seconds := math.Round(float64(record.DurationUS)/1000) / 1000
	answer := ran{ExitCode: record.ExitCode, DurationSec: &seconds}
	if record.Cause == protocol.CauseTimeout {
		answer.ExitCode = timedOut
	}
	if answer.Stdout, err = output.text(protocol.StreamStdout, in.Body.CaptureStdout); err != nil {
		return nil, err
	}
	if answer.Stderr, err = output.text(protocol.StreamStderr, in.Body.CaptureStderr); err != nil {
		return nil, err
	}
	return &ranOutput{answer}, nil
}

// shell is the program that runs a command line in a directory. The line is an
// argument, so that nothing in it can end what comes before.
func shell(dir, line string) []string {
	if dir == "" {
		return []string{"sh", "-c", line}
	}
	return []string{"sh", "-c", `cd "$0" || exit; exec sh -c "$1"`, dir, line}
}

// outputs takes both outputs of a command.
type outputs struct {
	each map[protocol.Stream]*execstream.Collector
	now  *execstream.Collector
}

func newOutputs(most int64) *outputs {
	o := &outputs{each: map[protocol.Stream]*execstream.Collector{
		protocol.StreamStdout: execstream.NewCollector(most, true), protocol.StreamStderr: execstream.NewCollector(most, true),
	}}
	o.now = o.each[protocol.StreamStdout]
	return o
}

// At is told which output the next bytes are of.
func (o *outputs) At(stream protocol.Stream, _ int64) {
	if next := o.each[stream]; next != nil {
		o.now = next
	}
}

// Write takes them.
func (o *outputs) Write(p []byte) (int, error) { return o.now.Write(p) }

func (o *outputs) text(stream protocol.Stream, wanted bool) (string, error) {
	kept, _, err := o.each[stream].Bytes()
	if err != nil || !wanted {
		return "", err
	}
	text, _ := execstream.Encoded(kept)
	return text, nil
}

// useError is the error of what needs a session that runs: all that another
// request of the client's might mend is a bad one.
func useError(err error) error {
	e, ok := errors.AsType[*errdefs.Error](err)
	if !ok || e.Code != errdefs.PermissionDenied && (e.Code != errdefs.NotFound || e.Reason == errdefs.NoSuchSession) {
		return err
	}
	return &statusError{http.StatusBadRequest, e.Message, err}
}

// snapshotError is the error of a snapshot on demand.
func snapshotError(err error) error {
	e, ok := errors.AsType[*errdefs.Error](err)
	if !ok {
		return err
	}
	switch e.Code {
	case errdefs.InvalidArgument, errdefs.Unprocessable, errdefs.Conflict, errdefs.TooLarge:
		return &statusError{http.StatusBadRequest, "Snapshot failed: " + e.Message, err}
	}
	return useError(err)
}
