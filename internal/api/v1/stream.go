package v1

import (
	"context"
	"io"
	"net/http"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/execstream"
	"github.com/sandkasten/sandkasten/internal/api/kit"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/protocol"
)

// done is the data of the event done.
type done struct {
	End
	DroppedBytes int64 `json:"dropped_bytes"` // that this stream lacks
}

func (s *surface) execStream(ctx context.Context, in *execInput) (*kit.Stream, error) {
	id, err := s.find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	return s.streamExec(ctx, id, &in.Body), nil
}

func (s *surface) streamExec(ctx context.Context, id session.ID, body *ExecRequest) *kit.Stream {
	req := body.request()
	return s.streamRun(ctx, id, body.RawOutput, func(out io.Writer) (protocol.Record, error) {
		return s.manager.Execs.Run(ctx, api.Caller(ctx), string(id), req, out)
	})
}

func (s *surface) processStream(ctx context.Context, in *processInput) (*kit.Stream, error) {
	id, err := s.find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	if in.Body.Background {
		return nil, errdefs.Invalid("background", "cannot be had with a stream; start it and follow its stream")
	}
	req, err := in.Body.request()
	if err != nil {
		return nil, err
	}
	return s.streamRun(ctx, id, in.Body.RawOutput, func(out io.Writer) (protocol.Record, error) {
		return s.manager.Execs.RunProcess(ctx, api.Caller(ctx), string(id), req, out)
	}), nil
}

// streamRun answers with the events of an exec that run runs.
func (s *surface) streamRun(ctx context.Context, id session.ID, raw bool, run func(out io.Writer) (protocol.Record, error)) *kit.Stream {
	return kit.Streaming(func(w http.ResponseWriter, r *http.Request) {
		out := announced{execstream.NewEvents(raw), ctx, w}
		result, err := run(out)
		switch {
		case err == nil:
			s.metrics.Ran(result)
			if !out.Begun() { // the sandbox died before it had the exec
				out.Accepted(result.ID)
			}
		case !out.Begun(): // it was refused
			api.WriteError(w, r, err)
			return
		}
		s.endEvents(ctx, id, out.Events, result, err)
	})
}

// announced is events that begin when the exec can be attached to: whoever has read
// its id comes back for the rest when the connection breaks.
type announced struct {
	*execstream.Events
	ctx context.Context
	w   http.ResponseWriter
}

// Accepted begins the events.
func (a announced) Accepted(execID string) {
	// If it fails, so does the first chunk, which ends the stream.
	if err := a.Begin(a.w, execstream.Place{Exec: execID}); err != nil {
		api.Failed(a.ctx, err)
	}
}

type execEventsInput struct {
	SessionPath
	LastEventID string `header:"Last-Event-ID" maxLength:"64" doc:"The id of the last event that arrived. With it nothing is run."`
	Cmd         string `query:"cmd" maxLength:"30000" doc:"As in exec."`
	Shell       string `query:"shell" maxLength:"64" pattern:"^[A-Za-z0-9._-]*$" doc:"As in exec."`
	TimeoutMS   int64  `query:"timeout_ms" minimum:"0" maximum:"86400000" doc:"As in exec."`
	RawOutput   bool   `query:"raw_output" doc:"As in exec."`
	FetchMode   string `header:"Sec-Fetch-Mode" hidden:"true"`
}

// execEvents is execStream for an EventSource, which comes back by itself when
// its connection breaks, and goes on asking until it is told to stop.
func (s *surface) execEvents(ctx context.Context, in *execEventsInput) (*kit.Stream, error) {
	id, err := s.find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	at, err := execstream.ParsePlace(in.LastEventID)
	switch {
	case err != nil:
		return nil, err
	case at.Exec != "":
		return s.streamFrom(ctx, id, at, in.RawOutput)
	case in.LastEventID != "":
		return nil, errdefs.Invalid("Last-Event-ID", "must be the id of an event of this path")
	case in.FetchMode == "navigate": // which every web site may have a browser do
		return nil, errdefs.New(errdefs.PermissionDenied, "a link cannot run a command; use an EventSource, or POST")
	}
	body := &ExecRequest{Cmd: in.Cmd, Shell: in.Shell, TimeoutMS: in.TimeoutMS, RawOutput: in.RawOutput}
	return s.streamExec(ctx, id, body), nil
}

type attachInput struct {
	ExecPath
	LastEventID string `header:"Last-Event-ID" maxLength:"64" doc:"The id of the last event that arrived, or the offset in it."`
	RawOutput   bool   `query:"raw_output" doc:"Leave the output as it is; see exec."`
}

func (s *surface) attachStream(ctx context.Context, in *attachInput) (*kit.Stream, error) {
	id, err := s.find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	at, err := execstream.ParsePlace(in.LastEventID)
	if err != nil {
		return nil, err
	}
	if at.Exec != "" && at.Exec != in.ExecID {
		return nil, errdefs.Invalid("Last-Event-ID", "is of another exec")
	}
	at.Exec = in.ExecID
	return s.streamFrom(ctx, id, at, in.RawOutput)
}

// streamFrom answers with an exec's events from a place on.
func (s *surface) streamFrom(ctx context.Context, id session.ID, at execstream.Place, raw bool) (*kit.Stream, error) {
	if at.Ended {
		return kit.Streaming(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }), nil
	}
	if _, err := s.manager.Execs.Get(ctx, api.Caller(ctx), string(id), at.Exec); err != nil {
		return nil, err
	}
	return kit.Streaming(func(w http.ResponseWriter, _ *http.Request) {
		out := execstream.NewEvents(raw)
		var record protocol.Record
		err := out.Begin(w, at)
		if err == nil {
			record, err = s.manager.Execs.Attach(ctx, api.Caller(ctx), string(id), at.Exec, at.Offset, out)
		}
		s.endEvents(ctx, id, out, record, err)
	}), nil
}

// endEvents sends the last event.
func (s *surface) endEvents(ctx context.Context, id session.ID, out *execstream.Events, result protocol.Record, err error) {
	if err == nil {
		err = out.End(done{End: s.endOf(ctx, id, result), DroppedBytes: out.Missing(result.OutputBytes)})
	} else {
		body, _ := api.ErrorForm(ctx, err)
		err = out.Fail(body)
	}
	if err != nil { // the client is gone
		api.Failed(ctx, err)
	}
}
