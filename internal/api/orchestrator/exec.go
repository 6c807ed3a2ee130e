package orchestrator

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strings"
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

func (s *surface) exec(w http.ResponseWriter, r *http.Request) error {
	x, err := s.find(r)
	if err != nil {
		return err
	}
	f, err := s.readFields(w, r)
	if err != nil {
		return err
	}
	req := ops.ProcessRequest{Args: shell(f.text("cwd", false), f.command("command")), Timeout: f.seconds("timeout_sec", 1), Leaving: ops.Kill}
	stdout, stderr := f.flag("capture_stdout"), f.flag("capture_stderr")
	_, maxima, _ := s.manager.Sessions.Limits(api.Caller(r.Context()))
	if most := maxima.ExecTimeout; req.Timeout > most {
		f.errors.add("timeout_sec", "Ensure this value is less than or equal to %d.", int64(most/time.Second))
	} else if req.Timeout == 0 {
		req.Timeout = most
	}
	if err := f.errors.orNil(); err != nil {
		return err
	}
	output := newOutputs(s.opts.OutputBytes)
	var record protocol.Record
	err = s.sessions.Change(r.Context(), api.Caller(r.Context()), x.ID, func(p auth.Principal, id session.ID) (err error) {
		record, err = s.manager.Execs.RunProcess(r.Context(), p, string(id), req, output)
		return err
	})
	if err != nil {
		return useError(err)
	}
	seconds := math.Round(float64(record.DurationUS)/1000) / 1000
	answer := ran{ExitCode: record.ExitCode, DurationSec: &seconds}
	if record.Cause == protocol.CauseTimeout {
		answer.ExitCode = timedOut
	}
	if answer.Stdout, err = output.text(protocol.StreamStdout, stdout); err != nil {
		return err
	}
	if answer.Stderr, err = output.text(protocol.StreamStderr, stderr); err != nil {
		return err
	}
	api.WriteJSON(w, r, http.StatusOK, answer)
	return nil
}

// command is a field that is a command line, or a list of words, which become one.
func (f *fields) command(name string) string {
	raw, there := f.take(name, true)
	if !there {
		return ""
	}
	var line string
	var words []string
	if json.Unmarshal(raw, &line) == nil {
		return line
	}
	if json.Unmarshal(raw, &words) != nil || len(words) == 0 {
		f.errors.add(name, "Must be a string or list of strings")
	}
	for i, word := range words {
		words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return strings.Join(words, " ")
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
